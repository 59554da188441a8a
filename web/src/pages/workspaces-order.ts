/** What the list remembers while it is shown: the order of what is looked at, and what was selected. */
import { useCallback, useEffect, useMemo, useRef, useState, type FocusEvent } from "react";
import type { Workspace } from "../api/types";
import { useLanguage } from "../i18n";
import { useLive } from "../live/hooks";
import { asBefore, inOrder } from "../live/order";

interface Hold {
  /** The order when the pointer or the focus came into the list. */
  order: readonly string[];
  pointed: boolean;
  focused: boolean;
}

/**
 * All workspaces in their order, which stays as it is while the pointer or the focus is in the list; and the list's
 * handlers that tell. A touch leaves no pointer behind.
 */
export function useOrdered() {
  const workspaces = useLive((live) => live.workspaces);
  const language = useLanguage();
  const [hold, setHold] = useState<Hold | null>(null);
  const sorted = useMemo(() => inOrder(workspaces.values(), language), [workspaces, language]);
  const shown = hold ? asBefore(sorted, hold.order) : sorted;
  const change = (what: Partial<Hold>) =>
    setHold((now) => {
      const next = { order: shown.map((ws) => ws.id), pointed: false, focused: false, ...now, ...what };
      return next.pointed || next.focused ? next : null;
    });
  const handlers = {
    onMouseEnter: () => change({ pointed: true }),
    onMouseLeave: () => change({ pointed: false }),
    onFocus: () => change({ focused: true }),
    onBlur: (event: FocusEvent) => change({ focused: event.currentTarget.contains(event.relatedTarget) }),
  };
  return [shown, handlers] as const;
}

const NONE: ReadonlySet<string> = new Set();

/** Which of the workspaces shown are selected. What is not shown is never acted on. */
export function useSelection(shown: readonly Workspace[]) {
  const [ids, setIds] = useState(NONE);
  const last = useRef<string | null>(null);
  const order = useRef<readonly string[]>([]);
  useEffect(() => void (order.current = shown.map((ws) => ws.id)));
  const choose = useCallback((id: string, through: boolean) => {
    const from = through && last.current !== null ? order.current.indexOf(last.current) : -1;
    const to = order.current.indexOf(id);
    last.current = id;
    setIds((now) => {
      const next = new Set(now);
      if (from >= 0)
        for (const each of order.current.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(each);
      else if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);
  const chosen = shown.filter((ws) => ids.has(ws.id));
  return {
    ids,
    chosen,
    isAll: chosen.length > 0 && chosen.length === shown.length,
    choose,
    all: () => setIds(new Set(order.current)),
    clear: () => setIds(NONE),
  };
}
