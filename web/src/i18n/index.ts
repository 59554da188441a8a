/** Which language is spoken, for components (`useMessages`) and for the few places outside of React (`messages`). */
import { Store, useStore } from "../store";
import { en } from "./en";
import { ko } from "./ko";
import type { Language, Messages } from "./messages";

export type { Language, Messages };
export const CATALOGUES: Record<Language, Messages> = { en, ko };
export const LANGUAGES: readonly Language[] = ["en", "ko"];

const KEY = "codehub.language";
const language = new Store<Language>(document.documentElement.lang === "ko" ? "ko" : "en");

export function setLanguage(chosen: Language): void {
  document.documentElement.lang = chosen;
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // Without storage the choice lasts until the page is left.
  }
  language.set(chosen);
}

export function useLanguage(): Language {
  return useStore(language);
}

export function useMessages(): Messages {
  return CATALOGUES[useLanguage()];
}

export const messages = (): Messages => CATALOGUES[language.get()];
