/** Short answers to what a person just did. Good news leaves by itself; bad news stays until it was read. */
import { useSyncExternalStore } from "react";
import { messages, useMessages } from "../i18n";
import { errorSentence } from "../words/errors";
import { Icon } from "./icons";

interface Notice {
  id: number;
  text: string;
  tone: "good" | "bad";
}

const GOOD_NEWS_MS = 6000;
let notices: readonly Notice[] = [];
let counter = 0;
const listeners = new Set<() => void>();

export function notify(text: string, tone: Notice["tone"] = "good"): void {
  const id = ++counter;
  // The same sentence twice is one sentence.
  set([...notices.filter((n) => n.text !== text), { id, text, tone }].slice(-4));
  if (tone === "good") setTimeout(() => dismiss(id), GOOD_NEWS_MS);
}

export function notifyError(error: unknown): void {
  notify(errorSentence(messages(), error), "bad");
}

export function Notices() {
  const m = useMessages();
  const shown = useSyncExternalStore(subscribe, () => notices);
  return (
    <div className="notices" role="status" aria-live="polite">
      {shown.map((notice) => (
        <div key={notice.id} className={`notice notice--${notice.tone}`}>
          <span>{notice.text}</span>
          <button
            type="button"
            className="notice__close"
            aria-label={m.app.close}
            onClick={() => dismiss(notice.id)}
          >
            <Icon name="cross" />
          </button>
        </div>
      ))}
    </div>
  );
}

function dismiss(id: number): void {
  set(notices.filter((n) => n.id !== id));
}

function set(next: readonly Notice[]): void {
  notices = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
