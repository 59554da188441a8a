/** The shape of a catalogue: the keys and parameters of the English one, with any words. */
import type { en } from "./en";

export type Widened<T> = T extends string
  ? string
  : T extends (...values: infer Values) => string
    ? (...values: Values) => string
    : { [Key in keyof T]: Widened<T[Key]> };

export type Messages = Widened<typeof en>;
export type Language = "en" | "ko";
