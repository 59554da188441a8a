/** Times that stay true while one looks at them. One clock ticks for all of them, and only while somebody looks. */
import { useSyncExternalStore } from "react";
import { useLanguage, useMessages } from "../i18n";
import { serverNow } from "../words/clock";
import { dateTime, relativeTime } from "../words/time";

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = serverNow();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(tick, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

function tick(): void {
  if (document.visibilityState === "hidden") return;
  now = serverNow();
  for (const listener of listeners) listener();
}

/** The server's time, to the second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

export function Ago({ at }: { at: string | null }) {
  const m = useMessages();
  const language = useLanguage();
  const text = relativeTime(m, at, useNow());
  return at === null ? (
    <span>{text}</span>
  ) : (
    <time dateTime={at} title={dateTime(language, at)}>
      {text}
    </time>
  );
}
