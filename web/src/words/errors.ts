/** Every way a request can fail, as a sentence. Codes are stable; a code nobody told us about speaks for itself. */
import { ApiError } from "../api/client";
import type { FieldError } from "../api/types";
import type { Messages } from "../i18n/messages";
import { duration } from "./time";

export function errorSentence(m: Messages, error: unknown): string {
  if (!(error instanceof ApiError)) return m.errors.unknown;
  switch (error.code) {
    case "limit_user":
      return m.errors.limit_user(numberOf(error.extra.used), numberOf(error.extra.allowed));
    case "rate_limited":
      return m.errors.rate_limited(
        error.retryAfterSeconds === null ? null : duration(m, error.retryAfterSeconds),
      );
    case "validation_failed":
      return validationSentence(m, error);
  }
  const sentence = (m.errors as Record<string, unknown>)[error.code];
  return typeof sentence === "string" ? sentence : (error.detail ?? m.errors.unknown);
}

function validationSentence(m: Messages, error: ApiError): string {
  if (error.fields.length === 0) return error.detail ?? m.errors.validation_failed;
  const fields = error.fields.map((each) => {
    const words = fieldWords(m, each);
    return each.field ? `${each.field} (${words})` : words;
  });
  return m.errors.validation_fields(fields.join(", "));
}

/** What is wrong with one field of a form. */
export function fieldError(m: Messages, error: unknown, field: string): string | null {
  if (!(error instanceof ApiError)) return null;
  const found = error.fields.find((e) => [e.field, ...e.field.split(".")].includes(field));
  return found ? fieldWords(m, found) : null;
}

/** By its code, in the person's language; what has none speaks English. */
function fieldWords(m: Messages, error: FieldError): string {
  const words = ({ ...m.errors, ...m.fieldErrors } as Record<string, unknown>)[error.code];
  if (typeof words === "string") return words;
  if (typeof words !== "function") return error.message;
  return (words as (value: number | string) => string)(Object.values(error.params)[0] ?? "");
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
