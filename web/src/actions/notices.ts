/** Short answers to what a person just did. Good news leaves by itself; bad news stays until it was read. */
import { messages } from "../i18n";
import { Store } from "../store";
import { errorSentence } from "../words/errors";

export interface Notice {
  id: number;
  text: string;
  tone: "good" | "bad";
}

const GOOD_NEWS_MS = 6000;
const MOST_AT_ONCE = 4;
let counter = 0;

export const notices = new Store<readonly Notice[]>([]);

export function notify(text: string, tone: Notice["tone"] = "good"): void {
  const id = ++counter;
  // The same sentence twice is one sentence.
  const others = notices.get().filter((n) => n.text !== text);
  notices.set([...others, { id, text, tone }].slice(-MOST_AT_ONCE));
  if (tone === "good") setTimeout(() => dismiss(id), GOOD_NEWS_MS);
}

export function notifyError(error: unknown): void {
  notify(errorSentence(messages(), error), "bad");
}

export function dismiss(id: number): void {
  notices.set(notices.get().filter((n) => n.id !== id));
}
