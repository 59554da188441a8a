/** "One too many": instead of a refusal, the list of what runs and a button that makes room. */
import { limitRefusal, showLimit, type LimitRefusal } from "../actions/limit";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { useMessages } from "../i18n";
import { useLive } from "../live/hooks";
import { errorSentence } from "../words/errors";
import { useStore } from "../store";
import { Dialog } from "./dialog";
import { StatusBadge } from "./status";
import "./limit.css";

export function LimitDialog() {
  const shown = useStore(limitRefusal);
  return shown && <Refused {...shown} />;
}

function Refused({ workspace, error }: LimitRefusal) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const workspaces = useLive((live) => live.workspaces);
  const asking = useLive((live) => live.asking);
  const close = () => showLimit(null);
  const holding = [...workspaces.values()].filter((ws) => ws.holds_place && ws.id !== workspace?.id);
  const allowed = typeof error.extra.allowed === "number" ? error.extra.allowed : null;
  const own = error.code === "limit_user";
  const room = own && allowed !== null && holding.length < allowed;
  const start = () => {
    close();
    if (workspace) void actions.start(workspace);
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
              onClick={() => void actions.stop(ws)}
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
