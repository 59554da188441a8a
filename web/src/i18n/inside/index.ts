/** The catalogue of what is inside workspaces, apart from the other one: it is no part of the first load. */
import { useLanguage, type Language } from "..";
import type { Widened } from "../messages";
import { en } from "./en";
import { ko } from "./ko";

export type InsideMessages = Widened<typeof en>;

const CATALOGUES: Record<Language, InsideMessages> = { en, ko };

export function useInsideMessages(): InsideMessages {
  return CATALOGUES[useLanguage()];
}
