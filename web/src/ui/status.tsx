/** A workspace's state in one word, told three times: by the word, by colour and by shape. */
import type { ReactNode } from "react";
import type { DesiredState, Status, Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { pendingState } from "../words/next";
import "./status.css";

export type Family = "running" | "asleep" | "archived" | "new" | "working" | "error";

export function familyOf(status: Status): Family {
  switch (status) {
    case "running":
    case "archived":
    case "new":
    case "error":
      return status;
    case "standby":
      return "asleep";
    case "deleted":
      return "archived";
    default:
      return "working";
  }
}

const SHAPES: Record<Family, ReactNode> = {
  running: <circle cx="8" cy="8" r="6" fill="currentColor" />,
  asleep: <path d="M13.5 10A6 6 0 1 1 6.4 2.2 4.8 4.8 0 0 0 13.5 10Z" fill="currentColor" />,
  archived: <path d="M2 3h12v3.5H2ZM3 8h10v6H3Z" fill="currentColor" />,
  new: (
    <circle
      cx="8"
      cy="8"
      r="5.25"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeDasharray="2.75 2.75"
    />
  ),
  working: (
    <g fill="none" stroke="currentColor" strokeWidth="2.5">
      <circle cx="8" cy="8" r="5.5" opacity="0.25" />
      <path d="M8 2.5A5.5 5.5 0 0 1 13.5 8" strokeLinecap="round" />
    </g>
  ),
  error: (
    <path
      d="M8 1.5 15 14.5H1ZM7.2 6v4.5h1.6V6ZM7.2 11.5v1.6h1.6v-1.6Z"
      fill="currentColor"
      fillRule="evenodd"
    />
  ),
};

export function StatusMark({ family }: { family: Family }) {
  return (
    <svg className={`mark mark--${family}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      {SHAPES[family]}
    </svg>
  );
}

export function StatusBadge({ workspace }: { workspace: Pick<Workspace, "status" | "progress"> }) {
  const m = useMessages();
  const family = familyOf(workspace.status);
  return (
    <span className={`status status--${family}`}>
      <StatusMark family={family} />
      <span>{m.status[workspace.status]}</span>
      {workspace.progress !== null && (
        <span className="status__percent">{m.progress(Math.round(workspace.progress))}</span>
      )}
    </span>
  );
}

const LEVELS: readonly DesiredState[] = ["PENDING", "STANDBY", "RUNNING"];

/**
 * The three states in their order, as a rail: the solid stop is what was observed, the hollow one is what is wanted,
 * and the piece between them fills as the operation proceeds. What is wanted never looks like what is.
 */
export function LevelRail({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const here = LEVELS.indexOf(workspace.observed_status as DesiredState);
  const pending = pendingState(workspace);
  const there = pending === null || pending === "DELETED" ? here : LEVELS.indexOf(pending);
  const word = (level: number) => {
    const state = LEVELS[level] ?? "PENDING";
    return state === "PENDING" && here === 0 && !workspace.archive_key
      ? m.levels.PENDING_empty
      : m.levels[state];
  };
  return (
    <div
      className="rail"
      role="img"
      aria-label={m.levels.label(word(Math.max(here, 0)), there === here ? null : word(there))}
    >
      {LEVELS.slice(0, 2).map((level, i) => (
        <RailPiece key={level} index={i} here={here} there={there} workspace={workspace} />
      ))}
      {LEVELS.map((level, i) => (
        <span key={level} className={`rail__stop rail__stop--${i} ${stopClass(i, here, there, workspace)}`}>
          <span className="rail__dot" />
          <span className="rail__word">{word(i)}</span>
        </span>
      ))}
    </div>
  );
}

function stopClass(i: number, here: number, there: number, workspace: Workspace): string {
  if (i === here) return workspace.health_status === "ERROR" ? "is-here is-error" : `is-here is-level-${i}`;
  return i === there ? "is-wanted" : "";
}

function RailPiece(props: { index: number; here: number; there: number; workspace: Workspace }) {
  const { index, here, there, workspace } = props;
  const upward = there > here;
  const wanted = upward ? index >= here && index < there : index < here && index >= there;
  const first = wanted && workspace.operation !== "NONE" && index === (upward ? here : here - 1);
  const progress = workspace.progress;
  const state = !wanted ? "" : first ? "is-moving" : "is-ahead";
  return (
    <span className={`rail__piece rail__piece--${index} ${state} ${upward ? "" : "is-down"}`}>
      {first && (
        <span
          className={progress === null ? "rail__fill is-unmeasured" : "rail__fill"}
          style={progress === null ? undefined : { width: `${Math.max(4, Math.min(100, progress))}%` }}
        />
      )}
    </span>
  );
}
