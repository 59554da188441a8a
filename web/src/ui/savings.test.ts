import { describe, expect, test } from "vitest";
import type { Savings } from "../api/types";
import { en } from "../i18n/en";
import { ko } from "../i18n/ko";
import { savingsText } from "./savings";

const month = (hours: number, money: number | null = null, currency: string | null = null): Savings => ({
  since: "2026-11-01T00:00:00Z",
  hours_existed: hours + 10,
  hours_ran: 10,
  hours_saved: hours,
  money,
  currency,
});

describe("what sleeping saved", () => {
  test.each([
    [month(0.9), null, null],
    [month(1.2), "1 running hour saved this month", "이번 달에 아낀 실행 시간: 1시간"],
    [month(1128.2), "1,128 running hours saved this month", "이번 달에 아낀 실행 시간: 1,128시간"],
    [
      month(312, 24.96, "EUR"),
      "312 running hours saved this month, about €24.96",
      "이번 달에 아낀 실행 시간: 312시간 (약 €24.96)",
    ],
  ])("%o", (savings, english, korean) => {
    expect(savingsText(en, "en", savings)).toBe(english);
    expect(savingsText(ko, "ko", savings)).toBe(korean);
  });
});
