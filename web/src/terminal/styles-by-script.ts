/**
 * xterm writes <style> elements and style attributes, which the policy of our pages forbids: styles from elsewhere can
 * read what a page shows. The same rules set by script are allowed. So while a terminal is open, new <style> elements
 * become style sheets made by script, and style attributes of new <span> elements are set as properties.
 */
export function writeStylesByScript(): () => void {
  Object.defineProperty(document, "createElement", { configurable: true, value: createElement });
  return () => void delete (document as Partial<Document>).createElement;
}

function createElement(name: string, options?: ElementCreationOptions): HTMLElement {
  if (name === "style") return styleElement();
  const made = Document.prototype.createElement.call(document, name, options);
  if (name === "span") made.setAttribute = setAttribute;
  return made;
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

/** Stands for a <style>: its text becomes a sheet, which goes with it. */
function styleElement(): HTMLElement {
  const element = Document.prototype.createElement.call(document, "span");
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  element.hidden = true;
  Object.defineProperty(element, "textContent", {
    set(text: string) {
      sheet.replaceSync(text);
    },
  });
  element.remove = () => {
    Element.prototype.remove.call(element);
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
  };
  return element;
}
