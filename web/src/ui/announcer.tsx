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
        // A workspace received for the first time has not changed.
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
