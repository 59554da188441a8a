/** Questions about files: a name, or whether one is sure. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { addressOf, join, nameOf, nameProblem, parentOf, placeOf, shownName } from "../../files/paths";
import { useMessages } from "../../i18n";
import { useInsideMessages } from "../../i18n/inside";
import { navigate } from "../../router";
import { Dialog } from "../../ui/dialog";
import { TextField } from "../../ui/fields";
import { insideError } from "../../words/inside-errors";

interface NameDialogProps {
  title: string;
  label: string;
  submit: string;
  name: string;
  act: (name: string) => Promise<unknown>;
  onClose: () => void;
}

function NameDialog({ title, label, submit, name: before, act, onClose }: NameDialogProps) {
  const m = useMessages();
  const w = useInsideMessages();
  const [name, setName] = useState(before);
  const [error, setError] = useState<string | null>(null);
  const { busy, attempt } = useAttempt(onClose);
  const send = async () => {
    const problem = nameProblem(name);
    setError(problem ? w.files.nameProblems[problem] : await attempt(() => act(name)));
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void send()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={busy || name === before}>
            {submit}
          </button>
        </>
      }
    >
      <TextField
        label={label}
        value={name}
        error={error}
        onChange={setName}
        autoComplete="off"
        spellCheck={false}
      />
    </Dialog>
  );
}

export function NewFolderDialog({
  id,
  folder,
  onClose,
}: {
  id: string;
  folder: string;
  onClose: () => void;
}) {
  const w = useInsideMessages();
  const changed = useChanged(id);
  return (
    <NameDialog
      title={w.files.newFolder}
      label={w.files.folderName}
      submit={w.files.create}
      name=""
      act={async (name) => {
        await call("POST", `/workspaces/${id}/files/directory`, { path: join(folder, name) });
        await changed();
      }}
      onClose={onClose}
    />
  );
}

export function RenameDialog({ id, path, onClose }: { id: string; path: string; onClose: () => void }) {
  const w = useInsideMessages();
  const changed = useChanged(id);
  return (
    <NameDialog
      title={w.files.renameTitle(shownName(nameOf(path)))}
      label={w.files.newName}
      submit={w.files.renameSubmit}
      name={nameOf(path)}
      act={async (name) => {
        const target = join(parentOf(path), name);
        await call("POST", `/workspaces/${id}/files/move`, { path, target });
        if (isShown(path)) navigate(addressOf(id, { kind: "file", path: target }), { replace: true });
        await changed();
      }}
      onClose={onClose}
    />
  );
}

interface DeleteDialogProps {
  id: string;
  path: string;
  isFolder: boolean;
  onClose: () => void;
}

export function DeleteDialog({ id, path, isFolder, onClose }: DeleteDialogProps) {
  const m = useMessages();
  const w = useInsideMessages();
  const changed = useChanged(id);
  const [error, setError] = useState<string | null>(null);
  const { busy, attempt } = useAttempt(onClose);
  const remove = async () => {
    const query = new URLSearchParams({ path, recursive: String(isFolder) });
    await call("DELETE", `/workspaces/${id}/files?${query}`);
    if (isShown(path)) navigate(addressOf(id, { kind: "folder", path: parentOf(path) }), { replace: true });
    await changed();
  };
  return (
    <Dialog
      title={w.files.deleteTitle(shownName(nameOf(path)))}
      onClose={onClose}
      onSubmit={() => void attempt(remove).then(setError)}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--danger" disabled={busy}>
            {w.files.deleteSubmit}
          </button>
        </>
      }
    >
      <p>{isFolder ? w.files.deleteFolder : w.files.deleteFile}</p>
      {error && (
        <p className="form-error" role="alert">
          {error}
        </p>
      )}
    </Dialog>
  );
}

interface OverwriteDialogProps {
  names: string[];
  /** Whether there are others to upload. */
  some: boolean;
  onChoose: (replace: boolean) => void;
  onClose: () => void;
}

export function OverwriteDialog({ names, some, onChoose, onClose }: OverwriteDialogProps) {
  const m = useMessages();
  const w = useInsideMessages();
  return (
    <Dialog
      title={w.files.overwriteTitle(names.length)}
      onClose={onClose}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          {some && (
            <button type="button" className="button" onClick={() => onChoose(false)}>
              {w.files.skip}
            </button>
          )}
          <button type="button" className="button button--danger" onClick={() => onChoose(true)}>
            {w.files.replace}
          </button>
        </>
      }
    >
      <p>{w.files.overwriteText}</p>
      <ul className="files__names">
        {names.map((name) => (
          <li key={name}>
            <bdi>{shownName(name)}</bdi>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

/** Whether the page shows this very file. */
function isShown(path: string): boolean {
  const place = placeOf(new URLSearchParams(window.location.search));
  return place.kind === "file" && place.path === path;
}

/** Folders are asked for again. */
function useChanged(id: string): () => Promise<void> {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: ["workspace", id, "files"] });
}

/** Does it and closes; what was refused is returned as a sentence. */
function useAttempt(onClose: () => void) {
  const m = useMessages();
  const w = useInsideMessages();
  const [busy, setBusy] = useState(false);
  const attempt = async (act: () => Promise<unknown>): Promise<string | null> => {
    setBusy(true);
    try {
      await act();
      onClose();
      return null;
    } catch (error) {
      setBusy(false);
      return insideError(m, w, error);
    }
  };
  return { busy, attempt };
}
