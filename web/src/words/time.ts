/** Moments and durations in words: coarse on purpose, because "4 min" is what a person plans with. */
import type { Language, Messages } from "../i18n/messages";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "45 s", "4 min", "1 h 20 min", "2 days". Rounds down: a promise of time left is never too generous. */
export function duration(m: Messages, seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < MINUTE) return m.time.seconds(s);
  if (s < HOUR) return m.time.minutes(Math.floor(s / MINUTE));
  if (s < DAY)
    return twoUnits(m, m.time.hours(Math.floor(s / HOUR)), Math.floor((s % HOUR) / MINUTE), m.time.minutes);
  return twoUnits(m, m.time.days(Math.floor(s / DAY)), Math.floor((s % DAY) / HOUR), m.time.hours);
}

function twoUnits(m: Messages, large: string, rest: number, small: (n: number) => string): string {
  return rest === 0 ? large : m.time.join(large, small(rest));
}

/** "just now", "4 min ago", "in 3 h". One unit only: the further away, the less the rest matters. */
export function relativeTime(m: Messages, at: string | null, nowMs: number): string {
  const moment = at === null ? NaN : Date.parse(at);
  if (Number.isNaN(moment)) return m.time.never;
  const seconds = (nowMs - moment) / 1000;
  if (Math.abs(seconds) < 10) return m.time.justNow;
  return seconds > 0 ? m.time.ago(oneUnit(m, seconds)) : m.time.in(oneUnit(m, -seconds));
}

function oneUnit(m: Messages, seconds: number): string {
  if (seconds < MINUTE) return m.time.seconds(Math.floor(seconds));
  if (seconds < HOUR) return m.time.minutes(Math.floor(seconds / MINUTE));
  if (seconds < DAY) return m.time.hours(Math.floor(seconds / HOUR));
  return m.time.days(Math.floor(seconds / DAY));
}

export function dateTime(language: Language, at: string): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(new Date(at));
}

/** The clock time, with the day when it is not today. */
export function clockTime(language: Language, at: string, nowMs: number): string {
  const moment = new Date(at);
  const today = new Date(nowMs).toDateString() === moment.toDateString();
  const time: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };
  return new Intl.DateTimeFormat(language, today ? time : { ...time, month: "short", day: "numeric" }).format(
    moment,
  );
}
