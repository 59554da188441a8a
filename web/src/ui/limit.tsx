/** "One too many": instead of a refusal, the list of what runs and a button that makes room. */
import { useSyncExternalStore } from "react";
import type { ApiError } from "../api/client";
import type { Workspace } from "../api/types";
import { useWishes } from "../actions/workspace-actions";
import { useMessages } from "../i18n";
import { useLive } from "../live/hooks";
import { errorSentence } from "../words/errors";
import { holdsPlace } from "../words/next";
import { Dialog } from "./dialog";
import { StatusBadge } from "./status";

interface Refusal {
  /** What was to be started; null while it does not exist yet (a creation was refused). */
  workspace: Workspace | null;
  error: ApiError;
}

let refusal: Refusal | null = null;
const listeners = new Set<() => void>();

export function showLimit(next: Refusal | null): void {
  refusal = next;
  for (const listener of listeners) listener();
}

export function LimitDialog() {
  const shown = useSyncExternalStore(subscribe, () => refusal);
  return shown && <Refused {...shown} />;
}

function Refused({ workspace, error }: Refusal) {
  const m = useMessages();
  const wishes = useWishes();
  const { workspaces, asking } = useLive();
  const close = () => showLimit(null);
  const holding = [...workspaces.values()].filter((ws) => holdsPlace(ws) && ws.id !== workspace?.id);
  const allowed = typeof error.extra.allowed === "number" ? error.extra.allowed : null;
  const own = error.code === "limit_user";
  const room = own && allowed !== null && holding.length < allowed;
  const start = () => {
    close();
    if (workspace) void wishes.start(workspace);
  };
  return (
    <Dialog
      title={m.limit.title}
      onClose={close}
      actions={
        <>
          <button type="button" className="button" onClick={close}>
            {m.app.close}
          </button>
          {workspace && (
            <button type="button" className="button button--primary" disabled={own && !room} onClick={start}>
              {m.limit.startNow(workspace.name)}
            </button>
          )}
        </>
      }
    >
      <p>{!own ? m.limit.global : allowed === null ? errorSentence(m, error) : m.limit.text(allowed)}</p>
      <ul className="lines">
        {holding.map((ws) => (
          <li key={ws.id} className="lines__item">
            <span className="lines__name">{ws.name}</span>
            <StatusBadge workspace={ws} />
            <button
              type="button"
              className="button button--small"
              aria-label={m.limit.stopNamed(ws.name)}
              disabled={asking.has(ws.id)}
              onClick={() => void wishes.stop(ws)}
            >
              {m.actions.stop}
            </button>
          </li>
        ))}
      </ul>
      <p role="status">{room ? m.limit.freed : ""}</p>
    </Dialog>
  );
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
