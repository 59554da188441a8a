/** A workspace's own error in words, and what a person can do about it. */
import type { ErrorInfo } from "../api/types";
import type { Messages } from "../i18n/messages";

export interface Trouble {
  what: string;
  advice: string;
}

export function troubleWords(m: Messages, info: ErrorInfo): Trouble {
  const code = codeOf(info);
  const codes = m.trouble.codes as Record<string, string>;
  const reasons = m.trouble.reasons as Record<string, string>;
  const what = (code && codes[code]) ?? reasons[info.reason] ?? m.trouble.reasons.unknown;
  return { what, advice: info.is_terminal ? adviceFor(m, info, code) : m.trouble.retrying };
}

function adviceFor(m: Messages, info: ErrorInfo, code: string | null): string {
  const { advice } = m.trouble;
  if (info.reason === "DataLost") return advice.data;
  switch (code) {
    case "NO_SPACE":
      return advice.space;
    case "IMAGE_PULL_FAILED":
    case "IMAGE_UNKNOWN":
    case "TOOL_MISSING":
      return advice.image;
    case "VOLUME_MISSING":
      return advice.volume;
    case "CONTAINER_START_FAILED":
      return advice.start;
  }
  if (info.context.expected === "volume_exists=True" || info.reason === "Mismatch") return advice.volume;
  return info.reason === "Unreachable" ? advice.wait : advice.generic;
}

/** The cause as the machinery named it; after used-up retries it is that of the last attempt. */
function codeOf(info: ErrorInfo): string | null {
  for (const key of ["code", "last_code"]) {
    const value = info.context[key];
    if (typeof value === "string") return value;
  }
  return null;
}
