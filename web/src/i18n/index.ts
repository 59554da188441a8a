/** Which language is spoken, for components (`useMessages`) and for the few places outside of React (`messages`). */
import { useSyncExternalStore } from "react";
import { en } from "./en";
import { ko } from "./ko";
import type { Language, Messages } from "./messages";

export type { Language, Messages };
export const CATALOGUES: Record<Language, Messages> = { en, ko };
export const LANGUAGES: readonly Language[] = ["en", "ko"];

const KEY = "codehub.language";
const listeners = new Set<() => void>();
let language: Language = document.documentElement.lang === "ko" ? "ko" : "en";

export function setLanguage(chosen: Language): void {
  language = chosen;
  document.documentElement.lang = chosen;
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // Without storage the choice lasts until the page is left.
  }
  for (const listener of listeners) listener();
}

export function useLanguage(): Language {
  return useSyncExternalStore(subscribe, () => language);
}

export function useMessages(): Messages {
  return CATALOGUES[useLanguage()];
}

export const messages = (): Messages => CATALOGUES[language];

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
