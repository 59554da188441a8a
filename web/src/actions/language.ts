/** Changing the language, with a notice when it could not be fetched. */
import { LANGUAGES, messages, setLanguage, type Language } from "../i18n";
import { notify } from "./notices";

export function chooseLanguage(language: Language): void {
  setLanguage(language).catch(() => languageMissing(language));
}

export function languageMissing(language: Language): void {
  notify(messages().app.languageMissing(LANGUAGES[language]), "bad");
}
