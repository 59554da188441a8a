import { ApiError } from "../api/client";
import type { InsideMessages } from "../i18n/inside";
import type { Messages } from "../i18n/messages";
import { errorSentence } from "./errors";

/** What a workspace refused, as a sentence; everything else as everywhere. */
export function insideError(m: Messages, words: InsideMessages, error: unknown): string {
  const own = error instanceof ApiError ? (words.errors as Record<string, string>)[error.code] : undefined;
  return own ?? errorSentence(m, error);
}
