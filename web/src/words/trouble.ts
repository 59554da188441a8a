/** A workspace's own error in words, and what a person can do about it. */
import type { ErrorInfo } from "../api/types";
import type { Messages } from "../i18n/messages";

export interface Trouble {
  what: string;
  advice: string;
  /** The last lines the workspace or its storage job wrote, where there were any. */
  output: string | null;
  /** Files of the home that are in the way. */
  files: string[];
  /** What stopped an archiving is for the owner to mend: they may start the workspace, and try again. */
  forOwner: boolean;
  /** The machine that has the home does not take it: its owner waits, or goes back to the last archive. */
  nodeAway: boolean;
}

export function troubleWords(m: Messages, info: ErrorInfo): Trouble {
  const code = stringOf(info.context.code);
  // That retries were used up is how it ended; what failed each time is what people can do something about.
  const reason = stringOf(info.context.last_reason) ?? info.reason;
  const codes = m.trouble.codes as Record<string, string>;
  const reasons = m.trouble.reasons as Record<string, string>;
  const what = (code && codes[code]) ?? reasons[reason] ?? m.trouble.reasons.unknown;
  const output = outputOf(info.context.output ?? info.context.log);
  const files = Array.isArray(info.context.files) ? info.context.files.map(String) : [];
  const nodeAway = code === "HOME_NODE_UNAVAILABLE";
  if (nodeAway) return { what, advice: m.trouble.advice.node, output, files, forOwner: true, nodeAway };
  const forOwner = isForOwner(info);
  if (forOwner) {
    const advice = files.length > 0 ? m.trouble.advice.mend : m.trouble.advice.archiving;
    return { what, advice, output, files, forOwner, nodeAway };
  }
  if (!info.is_terminal) return { what, advice: m.trouble.retrying, output, files, forOwner, nodeAway };
  const spoke = output !== null && info.operation === "STARTING";
  const advice = adviceFor(m, reason, code ?? (spoke ? "CONTAINER_START_FAILED" : null));
  return { what, advice, output, files, forOwner, nodeAway };
}

/** As the server judges it (`owner_may_lift_error`), once archiving was given up. */
function isForOwner(info: ErrorInfo): boolean {
  const givenUp = info.is_terminal || typeof info.context.next_try_at === "string";
  return (
    givenUp && info.operation === "ARCHIVING" && info.reason !== "DataLost" && info.reason !== "Mismatch"
  );
}

function adviceFor(m: Messages, reason: string, code: string | null): string {
  const { advice } = m.trouble;
  if (reason === "DataLost") return advice.data;
  switch (code) {
    case "NO_SPACE":
      return advice.space;
    case "IMAGE_PULL_FAILED":
    case "IMAGE_UNKNOWN":
      return advice.image;
    case "TOOL_MISSING":
      return advice.tool;
    case "VOLUME_MISSING":
      return advice.volume;
    case "OUT_OF_MEMORY":
      return advice.memory;
    case "UNSCHEDULABLE":
    case "QUOTA_EXCEEDED":
    case "ADMISSION_REFUSED":
    case "NAME_TAKEN":
    case "NODE_LOST":
      return advice.cluster;
    case "VOLUME_USED_ELSEWHERE":
      return advice.users;
    case "CONTAINER_PAUSED":
      return advice.paused;
    case "CONTAINER_ENDED":
    case "CONTAINER_START_FAILED":
      return advice.start;
  }
  if (reason === "Mismatch") return advice.volume;
  return reason === "Unreachable" ? advice.wait : advice.generic;
}

function outputOf(value: unknown): string | null {
  const text = Array.isArray(value) ? value.join("\n") : (stringOf(value) ?? "");
  return text.trim() === "" ? null : text.trim();
}

function stringOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
