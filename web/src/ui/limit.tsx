/** "One too many": instead of a refusal, what may give its place, and a place in line. */
import { useState } from "react";
import { limitRefusal, showLimit, type LimitRefusal } from "../actions/limit";
import { useWorkspaceActions } from "../actions/workspace-actions";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { useLive } from "../live/hooks";
import { serverNow } from "../words/clock";
import { errorSentence } from "../words/errors";
import { idleSeconds } from "../words/idle";
import { duration } from "../words/time";
import { useUser } from "../session";
import { useStore } from "../store";
import { Dialog } from "./dialog";
import { useClock } from "./time";
import "./limit.css";

export function LimitDialog() {
  const shown = useStore(limitRefusal);
  return shown && <Refused {...shown} />;
}

function Refused({ workspace, error, wait }: LimitRefusal) {
  const m = useMessages();
  const holding = useHolding(workspace);
  const close = () => showLimit(null);
  const allowed = typeof error.extra.allowed === "number" ? error.extra.allowed : null;
  const own = error.code === "limit_user";
  const room = own && allowed !== null && holding.length < allowed;
  const global = holding.length === 0 ? m.limit.globalNone : m.limit.global;
  return (
    <Dialog
      title={m.limit.title}
      onClose={close}
      actions={
        <>
          <button type="button" className="button" onClick={close}>
            {m.app.close}
          </button>
          {wait && (
            <button
              type="button"
              className="button button--primary"
              onClick={() => {
                close();
                wait();
              }}
            >
              {room ? m.actions.start : m.limit.wait}
            </button>
          )}
        </>
      }
    >
      <p>{!own ? global : allowed === null ? errorSentence(m, error) : m.limit.text(allowed)}</p>
      <ul className="lines">
        {holding.map((ws) => (
          <Holder key={ws.id} workspace={ws} wanted={wait && workspace} />
        ))}
      </ul>
      <p role="status">{room ? m.limit.freed : ""}</p>
    </Dialog>
  );
}

/** What holds places of the same person, the longest idle first: it is missed the least. */
function useHolding(wanted: Workspace | null): Workspace[] {
  const user = useUser();
  const owner = wanted?.owner_id ?? user.id;
  const workspaces = useLive((live) => live.workspaces);
  const [nowMs] = useState(serverNow); // the order stays while the dialog is open
  return [...workspaces.values()]
    .filter((ws) => ws.holds_place && ws.id !== wanted?.id && ws.owner_id === owner)
    .map((ws) => ({ ws, idle: idleSeconds(ws, nowMs) ?? -1 }))
    .sort((one, other) => other.idle - one.idle)
    .map(({ ws }) => ws);
}

/** One that could give its place: at once, where something is to be started; otherwise by going to sleep. */
function Holder({ workspace, wanted }: { workspace: Workspace; wanted: Workspace | null }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const asking = useLive((live) => live.asking.has(workspace.id));
  const idle = useClock((nowMs) => {
    const seconds = idleSeconds(workspace, nowMs);
    return seconds === null ? m.limit.inUse : m.limit.idle(duration(m, seconds));
  });
  const give = () => {
    if (!wanted) return void actions.stop(workspace);
    showLimit(null);
    // In line, if the place is not free yet: the other one may have to finish something first.
    void actions.start(wanted, { instead_of: workspace.id, queue: true });
  };
  return (
    <li className="lines__item">
      <span className="lines__name">{workspace.name}</span>
      <span className="lines__note">{idle}</span>
      <button
        type="button"
        className="button button--small"
        aria-label={
          wanted ? m.limit.swapNamed(workspace.name, wanted.name) : m.limit.sleepNamed(workspace.name)
        }
        disabled={asking}
        onClick={give}
      >
        {wanted ? m.limit.swap : m.limit.sleep}
      </button>
    </li>
  );
}
