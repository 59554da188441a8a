/** What sleeping saved this month, in hours and, where there is a price, in money. Nothing worth saying: nothing. */
import { useQuery } from "@tanstack/react-query";
import { savingsQuery } from "../api/queries";
import type { Savings } from "../api/types";
import { useLanguage, useMessages } from "../i18n";
import type { Language, Messages } from "../i18n";

export function SavingsLine() {
  const m = useMessages();
  const language = useLanguage();
  const { data } = useQuery(savingsQuery);
  const text = data ? savingsText(m, language, data) : null;
  return text === null ? null : <p className="page__lead">{text}</p>;
}

export function savingsText(m: Messages, language: Language, savings: Savings): string | null {
  const hours = Math.floor(savings.hours_saved);
  if (hours < 1) return null;
  const count = new Intl.NumberFormat(language).format(hours);
  return m.list.saved(hours, count, money(language, savings));
}

function money(language: Language, { money: amount, currency }: Savings): string | null {
  if (amount === null || currency === null) return null;
  return new Intl.NumberFormat(language, { style: "currency", currency }).format(amount);
}
