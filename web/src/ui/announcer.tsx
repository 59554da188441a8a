/** Tells a screen reader what sighted people see happen: a workspace reached a new state. */
import { useEffect, useState } from "react";
import { messages } from "../i18n";
import { useLiveStore } from "../live/hooks";

export function Announcer() {
  const store = useLiveStore();
  const [text, setText] = useState("");
  useEffect(
    () =>
      store.transitions.subscribe((before, after) => {
        const m = messages();
        // The first telling of a snapshot is no news.
        if (!before || before.status === after?.status) return;
        setText(
          after ? m.list.announce(after.name, m.status[after.status]) : m.list.announceDeleted(before.name),
        );
      }),
    [store],
  );
  return (
    <div className="sr-only" aria-live="polite">
      {text}
    </div>
  );
}
