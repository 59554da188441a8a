/** The output of a detached process, of the event stream that the API answers with. */

/** Both outputs in their order, as text. */
export function outputOf(events: string): string {
  const decoder = new TextDecoder();
  let text = "";
  for (const block of events.split("\n\n")) {
    if (!/^event: std(out|err)$/m.test(block)) continue;
    const data = /^data: (.*)$/m.exec(block)?.[1];
    if (data === undefined) continue;
    const bytes = atob((JSON.parse(data) as { data: string }).data);
    text += decoder.decode(
      Uint8Array.from(bytes, (each) => each.charCodeAt(0)),
      { stream: true },
    );
  }
  return text + decoder.decode();
}
