/**
 * The keys of the list: one letter each, as in other lists people live in. They are not heard while somebody types,
 * while a dialog or a menu is open, or with a modifier held; and they can be switched off, because a single letter is
 * also what voice control says by accident.
 */
import { useLayoutEffect, useRef } from "react";
import { Remembered } from "../remembered";
import { useStore } from "../store";

export const KEYS = ["/", "n", "j", "k", "Enter", "o", "x", "?"] as const;
export type Key = (typeof KEYS)[number];

export const keysHeard = new Remembered("codehub.keys", ["on", "off"]);

/** The letters of a Korean keyboard in their places. */
const HANGUL: Record<string, string> = { ㅜ: "n", ㅓ: "j", ㅏ: "k", ㅐ: "o", ㅌ: "x" };

/** The key of ours an event means, or null. Enter is the browser's: it follows the link that has the focus. */
export function keyOf(event: KeyboardEvent): Key | null {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey)
    return null;
  if (event.target instanceof Element && event.target.closest(TYPING)) return null;
  if (document.querySelector("dialog[open]")) return null;
  const key = HANGUL[event.key] ?? event.key;
  return key === "Enter" ? null : (KEYS.find((each) => each === key) ?? null);
}

const TYPING =
  'input:not([type="checkbox"], [type="radio"]), textarea, select, [contenteditable]:not([contenteditable="false"]), [role="menu"]';

/** Hear the keys while the page is shown. */
export function useKeys(hear: (key: Key) => void): void {
  const newest = useRef(hear);
  const on = useStore(keysHeard) === "on";
  useLayoutEffect(() => void (newest.current = hear));
  // With the list, not a moment after it: who sees it may press a key.
  useLayoutEffect(() => {
    if (!on) return;
    const listen = (event: KeyboardEvent) => {
      const key = keyOf(event);
      if (key === null) return;
      event.preventDefault();
      newest.current(key);
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, [on]);
}

const items = () => [...document.querySelectorAll<HTMLElement>("article[data-workspace]")];

/** The workspace that has the focus, if any. */
export function focusedItem(): HTMLElement | null {
  return document.activeElement?.closest<HTMLElement>("article[data-workspace]") ?? null;
}

/** Move the focus to the name of the next or previous workspace; Enter then opens its page. */
export function moveFocus(by: 1 | -1): void {
  const all = items();
  const focused = focusedItem();
  const here = focused ? all.indexOf(focused) : by > 0 ? -1 : all.length;
  const item = all[Math.min(Math.max(here + by, 0), all.length - 1)];
  item?.querySelector<HTMLElement>("h2 a")?.focus();
  item?.scrollIntoView?.({ block: "nearest" });
}
