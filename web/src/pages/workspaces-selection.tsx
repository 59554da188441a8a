/** What can be done with the workspaces that were chosen: one confirmation for all, and a summary of what failed. */
import { useState } from "react";
import { askForEach, concernedBy, type BulkAction, type BulkFailure } from "../actions/bulk";
import { notify } from "../actions/notices";
import type { Workspace } from "../api/types";
import { messages, useMessages } from "../i18n";
import { useLiveStore } from "../live/hooks";
import { Dialog } from "../ui/dialog";
import { errorSentence } from "../words/errors";
import "./workspaces-selection.css";

const ACTIONS: readonly BulkAction[] = ["start", "stop", "archive"];
/** So many are named in the question; the rest is counted. */
const NAMED = 12;

export default function SelectionBar({ chosen, onClear }: { chosen: Workspace[]; onClear: () => void }) {
  const m = useMessages();
  const [action, setAction] = useState<BulkAction | null>(null);
  return (
    <section className="selection" aria-label={m.bulk.label}>
      <p className="selection__count" role="status">
        {m.bulk.chosen(chosen.length)}
      </p>
      <div className="selection__actions">
        {ACTIONS.map((each) => (
          <button
            key={each}
            type="button"
            className="button button--small"
            disabled={concernedBy(each, chosen).length === 0}
            onClick={() => setAction(each)}
          >
            {m.actions[each]}
          </button>
        ))}
        <button type="button" className="button button--small button--quiet" onClick={onClear}>
          {m.bulk.clear}
        </button>
      </div>
      {action && (
        <BulkDialog action={action} chosen={chosen} onClose={() => setAction(null)} onDone={onClear} />
      )}
    </section>
  );
}

interface BulkDialogProps {
  action: BulkAction;
  chosen: Workspace[];
  onClose: () => void;
  /** Everything was asked for and nothing was refused. */
  onDone: () => void;
}

function BulkDialog({ action, chosen, onClose, onDone }: BulkDialogProps) {
  const m = useMessages();
  const store = useLiveStore();
  // As they were when the question was asked: the answer must be about the same workspaces.
  const [concerned] = useState(() => concernedBy(action, chosen));
  const [answered, setAnswered] = useState<number | null>(null);
  const [failures, setFailures] = useState<BulkFailure[] | null>(null);
  const ask = async () => {
    setAnswered(0);
    const refused = await askForEach(store, action, concerned, setAnswered);
    if (refused.length > 0) return setFailures(refused);
    notify(messages().bulk.done[action](concerned.length));
    onClose();
    onDone();
  };
  if (failures)
    return (
      <Dialog title={m.bulk.failedTitle(failures.length, concerned.length)} onClose={onClose}>
        <ul className="bulk__failures">
          {failures.map(({ workspace, error }) => (
            <li key={workspace.id}>
              <strong>{workspace.name}</strong>
              <span>{errorSentence(m, error)}</span>
            </li>
          ))}
        </ul>
      </Dialog>
    );
  const left = chosen.length - concerned.length;
  return (
    <Dialog
      title={m.bulk.ask[action](concerned.length)}
      // Under way it stays: closed, it could not tell what failed.
      onClose={() => answered === null && onClose()}
      onSubmit={() => void ask()}
      actions={
        <>
          <button type="button" className="button" disabled={answered !== null} onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={answered !== null}>
            {m.actions[action]}
          </button>
        </>
      }
    >
      <p>{m.bulk.means[action]}</p>
      <ul className="bulk__names">
        {concerned.slice(0, NAMED).map((ws) => (
          <li key={ws.id}>{ws.name}</li>
        ))}
        {concerned.length > NAMED && <li>{m.bulk.more(concerned.length - NAMED)}</li>}
      </ul>
      {left > 0 && <p className="bulk__left">{m.bulk.unconcerned(left)}</p>}
      <p role="status">{answered === null ? "" : m.bulk.answered(answered, concerned.length)}</p>
    </Dialog>
  );
}
