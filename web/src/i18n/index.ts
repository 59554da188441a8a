/**
 * Which language is spoken, for components (`useMessages`) and for the few places outside of React (`messages`).
 * English comes with the first load and is what is left when another language cannot be fetched; every other language
 * is fetched when it is spoken. Invariant: the language that is spoken has been loaded, so no text is ever missing.
 */
import { Store, useStore } from "../store";
import { en } from "./en";
import type { Language, Messages } from "./messages";

export type { Language, Messages };

/** Each language by its own name, which needs no translation. */
export const LANGUAGES: Readonly<Record<Language, string>> = { en: "English", ko: "한국어" };

const KEY = "codehub.language";
const FETCHED: Record<Exclude<Language, "en">, () => Promise<Messages>> = {
  ko: async () => (await import("./ko")).ko,
};

interface Spoken {
  language: Language;
  messages: Messages;
}

const spoken = new Store<Spoken>({ language: "en", messages: en });
let asked = 0;

/** Speak the language `appearance.js` chose: before the first render, so that nobody sees the wrong one first. */
export function speakChosen(): Promise<void> {
  return speak(document.documentElement.lang === "ko" ? "ko" : "en");
}

/** Switch and remember. Rejects when the language cannot be fetched: then everything stays as it was. */
export async function setLanguage(chosen: Language): Promise<void> {
  await speak(chosen);
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // Without storage the choice lasts until the page is left.
  }
}

async function speak(chosen: Language): Promise<void> {
  const mine = ++asked;
  try {
    const messages = chosen === "en" ? en : await FETCHED[chosen]();
    // Who changed their mind while it was fetched gets what they asked for last.
    if (mine === asked) spoken.set({ language: chosen, messages });
  } finally {
    document.documentElement.lang = spoken.get().language;
  }
}

export function useLanguage(): Language {
  return useStore(spoken, (now) => now.language);
}

export function useMessages(): Messages {
  return useStore(spoken, (now) => now.messages);
}

export const messages = (): Messages => spoken.get().messages;
