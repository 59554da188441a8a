/** Output of a workspace as it comes over the wire: lines as JSON or as they are, kept to what a person may scroll. */

const MOST_CHARACTERS = 200_000;

export function logText(data: string): string {
  if (data.startsWith("{") || data.startsWith('"')) {
    try {
      const value: unknown = JSON.parse(data);
      if (typeof value === "string") return value;
      if (typeof value === "object" && value !== null) {
        const { line, text, data: inner } = value as Record<string, unknown>;
        for (const candidate of [line, text, inner]) if (typeof candidate === "string") return candidate;
      }
    } catch {
      // Output that happens to begin like JSON is output.
    }
  }
  return data;
}

export function appendLog(old: string, more: string): string {
  const text = stripControl(more);
  const all = old + (text.endsWith("\n") || text === "" ? text : `${text}\n`);
  if (all.length <= MOST_CHARACTERS) return all;
  const cut = all.slice(-MOST_CHARACTERS);
  return cut.slice(cut.indexOf("\n") + 1);
}

/** Colours and cursor movements mean something to a terminal only. */
function stripControl(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "").replace(/\r(?!\n)/g, "\n");
}
