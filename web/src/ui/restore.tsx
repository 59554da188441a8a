/** Returning to an earlier archive: what will happen, said exactly, before it is asked for. */
import { useState } from "react";
import type { ArchiveGeneration, Workspace } from "../api/types";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { useLanguage, useMessages } from "../i18n";
import { dateTime } from "../words/time";
import { Dialog } from "./dialog";

interface RestoreProps {
  workspace: Workspace;
  archive: ArchiveGeneration;
  onClose: () => void;
}

export function RestoreDialog({ workspace, archive, onClose }: RestoreProps) {
  const m = useMessages();
  const language = useLanguage();
  const actions = useWorkspaceActions();
  const wantsToRun = workspace.desired_state === "RUNNING";
  const [open, setOpen] = useState(wantsToRun);
  const [busy, setBusy] = useState(false);
  const hasFiles = workspace.observed_status !== "PENDING";
  const submit = async () => {
    setBusy(true);
    if (await actions.restore(workspace, archive.key, open)) onClose();
    else setBusy(false);
  };
  return (
    <Dialog
      title={m.restore.title(workspace.name, dateTime(language, archive.created_at))}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={busy}>
            {m.restore.submit}
          </button>
        </>
      }
    >
      <p>{hasFiles ? m.restore.archivedFirst : m.restore.nothingToArchive}</p>
      {workspace.observed_status === "RUNNING" && <p>{m.restore.stops}</p>}
      {!wantsToRun && (
        <label>
          <input type="checkbox" checked={open} onChange={(event) => setOpen(event.target.checked)} />{" "}
          {m.restore.open}
        </label>
      )}
    </Dialog>
  );
}

/** It waits, or was given up: shown above the list of archives. */
export function ReturnNotice({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const language = useLanguage();
  const actions = useWorkspaceActions();
  const target = workspace.restore_from;
  if (target === null)
    return workspace.return_given_up === null ? null : (
      <p role="status">
        {m.restore.givenUp} <span className="mono">{workspace.return_given_up}</span>
      </p>
    );
  return (
    <p role="status">
      {m.restore.willReturn(dateTime(language, target.created_at))}{" "}
      <button type="button" className="button button--small" onClick={() => void actions.stay(workspace)}>
        {m.restore.stay}
      </button>
    </p>
  );
}
