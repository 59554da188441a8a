import { describe, expect, test } from "vitest";
import type { Savings } from "../api/types";
import { en } from "../i18n/en";
import { ko } from "../i18n/ko";
import { savingsText } from "./savings";

const month = (
  hours: number,
  money: number | null = null,
  currency: string | null = null,
  gigabytes = 0,
): Savings => ({
  since: "2026-11-01T00:00:00Z",
  hours_existed: hours + 10,
  hours_ran: 10,
  hours_saved: hours,
  gb_not_on_disk: gigabytes,
  gb_months_saved: gigabytes / 2,
  money,
  currency,
});

describe("what sleeping saved", () => {
  test.each([
    [month(0.9), null, null],
    [month(1.2), "1 running hour saved this month", "이번 달에 아낀 실행 시간: 1시간"],
    [month(1128.2), "1,128 running hours saved this month", "이번 달에 아낀 실행 시간: 1,128시간"],
    [month(0, null, null, 0.04), null, null],
    [month(0, null, null, 12.44), "12.4 GB not on disk", "디스크에 없는 홈 12.4GB"],
    [
      month(2, null, null, 3),
      "2 running hours saved this month · 3 GB not on disk",
      "이번 달에 아낀 실행 시간: 2시간 · 디스크에 없는 홈 3GB",
    ],
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
