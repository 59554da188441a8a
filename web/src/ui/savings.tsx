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
  const format = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
  const gigabytes = savings.gb_not_on_disk;
  const disk = gigabytes >= 0.1 ? m.list.notOnDisk(format.format(gigabytes)) : null;
  if (hours < 1) return disk;
  const saved = m.list.saved(hours, format.format(hours), money(language, savings));
  return disk === null ? saved : `${saved} · ${disk}`;
}

function money(language: Language, { money: amount, currency }: Savings): string | null {
  if (amount === null || currency === null) return null;
  return new Intl.NumberFormat(language, { style: "currency", currency }).format(amount);
}
