/** Output of a workspace as it comes over the wire: pieces of text, cut anywhere, kept to what a person may scroll. */

const MOST_CHARACTERS = 200_000;

export function logText(data: string): string {
  try {
    const { text } = JSON.parse(data) as { text?: unknown };
    return typeof text === "string" ? text : "";
  } catch {
    return "";
  }
}

export function appendLog(old: string, more: string): string {
  const all = old + stripControl(more);
  if (all.length <= MOST_CHARACTERS) return all;
  const cut = all.slice(-MOST_CHARACTERS);
  return cut.slice(cut.indexOf("\n") + 1);
}

/** Colours and cursor movements mean something to a terminal only. */
export function stripControl(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "").replace(/\r(?!\n)/g, "\n");
}
