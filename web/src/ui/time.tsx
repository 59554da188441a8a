/** Times that stay true while one looks at them. One clock ticks for all of them, and only while somebody looks. */
import { useLanguage, useMessages } from "../i18n";
import { Store, useStore } from "../store";
import { serverNow } from "../words/clock";
import { dateTime, relativeTime } from "../words/time";

const clock = new Store(serverNow(), {
  whileWatched: () => {
    const tick = () => {
      if (document.visibilityState !== "hidden") clock.set(serverNow());
    };
    tick();
    const timer = setInterval(tick, 1000);
    return () => clearInterval(timer);
  },
});

/** What `select` makes of the server's time; the component renders again when that changes, not at every second. */
export function useClock<Part>(select: (now: number) => Part): Part {
  return useStore(clock, select);
}

export function Ago({ at }: { at: string | null }) {
  const m = useMessages();
  const language = useLanguage();
  const text = useClock((now) => relativeTime(m, at, now));
  return at === null ? (
    <span>{text}</span>
  ) : (
    <time dateTime={at} title={dateTime(language, at)}>
      {text}
    </time>
  );
}
