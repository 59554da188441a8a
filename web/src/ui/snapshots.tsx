/** Snapshots and copies: dialogs that say exactly what happens, and the notice of a snapshot that is being taken. */
import { useState } from "react";
import { call } from "../api/client";
import type { ArchiveGeneration, Page, Workspace } from "../api/types";
import { notify, notifyError } from "../actions/notices";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { useLanguage, useMessages } from "../i18n";
import type { Messages } from "../i18n/messages";
import { useLiveStore } from "../live/hooks";
import { navigate } from "../router";
import { dateTime } from "../words/time";
import { Dialog } from "./dialog";
import { TextField } from "./fields";

export type Question =
  | { kind: "take" }
  | { kind: "keep" | "rename" | "remove"; archive: ArchiveGeneration }
  | { kind: "copy"; archive: ArchiveGeneration | null };

interface QuestionProps {
  workspace: Workspace;
  question: Question;
  onClose: () => void;
}

export function SnapshotDialog({ workspace, question, onClose }: QuestionProps) {
  if (question.kind === "copy")
    return <CopyDialog workspace={workspace} archive={question.archive} onClose={onClose} />;
  if (question.kind === "remove")
    return <RemoveDialog workspace={workspace} archive={question.archive} onClose={onClose} />;
  const archive = question.kind === "take" ? null : question.archive;
  return <NameDialog workspace={workspace} archive={archive} onClose={onClose} />;
}

interface ArchiveProps {
  workspace: Workspace;
  archive: ArchiveGeneration | null;
  onClose: () => void;
}

/** Name the present home, an archive, or a snapshot that has a name already. */
function NameDialog({ workspace, archive, onClose }: ArchiveProps) {
  const m = useMessages();
  const language = useLanguage();
  const actions = useWorkspaceActions();
  const known = archive?.snapshot ?? null;
  const [name, setName] = useState(known?.name ?? "");
  const [busy, setBusy] = useState(false);
  const title = known
    ? m.snapshots.rename
    : archive
      ? m.snapshots.keepTitle(dateTime(language, archive.created_at))
      : m.snapshots.takeTitle(workspace.name);
  const submit = async () => {
    setBusy(true);
    const done = known
      ? await actions.renameSnapshot(workspace, known.id, name)
      : await actions.takeSnapshot(workspace, name, archive?.key);
    if (done) onClose();
    else setBusy(false);
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <Buttons m={m} submit={m.snapshots.submit} disabled={busy || !name.trim()} onClose={onClose} />
      }
    >
      {!known && <p>{m.snapshots.takeText}</p>}
      <TextField label={m.snapshots.name} value={name} onChange={setName} maxLength={100} />
    </Dialog>
  );
}

function RemoveDialog({ workspace, archive, onClose }: ArchiveProps) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const known = archive?.snapshot;
  if (!known) return null;
  const submit = async () => {
    if (await actions.deleteSnapshot(workspace, known.id)) onClose();
  };
  return (
    <Dialog
      title={m.snapshots.removeTitle(known.name)}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={<Buttons m={m} submit={m.snapshots.remove} disabled={false} onClose={onClose} danger />}
    >
      <p>{m.snapshots.removeText}</p>
    </Dialog>
  );
}

/** A copy of an archive, or of the present home: of one that sleeps, a snapshot is taken first. */
function CopyDialog({ workspace, archive, onClose }: ArchiveProps) {
  const m = useMessages();
  const store = useLiveStore();
  const [name, setName] = useState(m.copies.suggested(workspace.name));
  const [start, setStart] = useState(true);
  const [busy, setBusy] = useState(false);
  const first = archive === null && workspace.status !== "archived";
  const submit = async () => {
    setBusy(true);
    try {
      const key = first ? await snapshotKey(workspace, m.copies.snapshotName(name)) : archive?.key;
      if (first && key === null) {
        notify(m.copies.failed, "bad");
        setBusy(false);
        return;
      }
      const [, op_id, attempt] = key?.split("/") ?? [];
      const copy = await call<Workspace>("POST", `/workspaces/${workspace.id}/copies`, {
        name,
        start,
        op_id,
        attempt,
      });
      store.observe(copy);
      onClose();
      navigate(`/workspaces/${copy.id}`);
    } catch (error) {
      notifyError(error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={m.copies.title(workspace.name)}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={<Buttons m={m} submit={m.copies.submit} disabled={busy || !name.trim()} onClose={onClose} />}
    >
      <p>{m.copies.text}</p>
      {first && <p>{m.copies.first}</p>}
      <TextField label={m.copies.name} value={name} onChange={setName} maxLength={100} />
      <label>
        <input type="checkbox" checked={start} onChange={(event) => setStart(event.target.checked)} />{" "}
        {m.copies.start}
      </label>
    </Dialog>
  );
}

const LOOK_EVERY_MS = 700;

/** Take a snapshot and wait for it: the key of its archive, or null if it was given up. */
async function snapshotKey(workspace: Workspace, name: string): Promise<string | null> {
  let seen = await call<Workspace>("POST", `/workspaces/${workspace.id}/snapshots`, { name });
  while (seen.snapshot_as !== null) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    seen = await call<Workspace>("GET", `/workspaces/${workspace.id}`);
  }
  const page = await call<Page<ArchiveGeneration>>("GET", `/workspaces/${workspace.id}/archives`);
  return page.items.find((each) => each.snapshot?.name === name)?.key ?? null;
}

interface ButtonsProps {
  m: Messages;
  submit: string;
  disabled: boolean;
  onClose: () => void;
  danger?: boolean;
}

function Buttons({ m, submit, disabled, onClose, danger = false }: ButtonsProps) {
  return (
    <>
      <button type="button" className="button" onClick={onClose}>
        {m.app.cancel}
      </button>
      <button className={danger ? "button button--danger" : "button button--primary"} disabled={disabled}>
        {submit}
      </button>
    </>
  );
}

/** Above the list of archives: one is being taken, or may be. */
export function SnapshotBar({ workspace, onAsk }: { workspace: Workspace; onAsk: (q: Question) => void }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const wanted = workspace.snapshot_as;
  if (wanted)
    return (
      <p role="status">
        {m.snapshots.wanted(wanted.name)}{" "}
        <button
          type="button"
          className="button button--small"
          onClick={() => void actions.deleteSnapshot(workspace, wanted.id)}
        >
          {m.snapshots.cancel}
        </button>
      </p>
    );
  if (!["standby", "archived"].includes(workspace.status))
    return workspace.status === "running" ? <p className="panel__lead">{m.snapshots.asleep}</p> : null;
  return (
    <p className="generations__bar">
      <button type="button" className="button button--small" onClick={() => onAsk({ kind: "take" })}>
        {m.snapshots.take}…
      </button>
      <button
        type="button"
        className="button button--small"
        onClick={() => onAsk({ kind: "copy", archive: null })}
      >
        {m.copies.open}…
      </button>
    </p>
  );
}
