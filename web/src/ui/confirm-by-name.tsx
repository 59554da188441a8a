/** What cannot be undone asks for the workspace's name, so that it cannot be done by a slip. */
import { useState, type ReactNode } from "react";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { Dialog } from "./dialog";
import { TextField } from "./fields";

interface ConfirmByNameProps {
  workspace: Workspace;
  words: { title: (name: string) => string; text: string; type: (name: string) => string; submit: string };
  /** Whether it was done; then the dialog closes. */
  act: () => Promise<boolean>;
  onClose: () => void;
  children?: ReactNode;
}

export function ConfirmByName({ workspace, words, act, onClose, children }: ConfirmByNameProps) {
  const m = useMessages();
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const sure = typed.trim() === workspace.name;
  const submit = async () => {
    if (!sure) return;
    setBusy(true);
    if (await act()) onClose();
    else setBusy(false);
  };
  return (
    <Dialog
      title={words.title(workspace.name)}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--danger" disabled={!sure || busy}>
            {words.submit}
          </button>
        </>
      }
    >
      <p>{words.text}</p>
      {children}
      <TextField
        label={words.type(workspace.name)}
        value={typed}
        onChange={setTyped}
        autoComplete="off"
        spellCheck={false}
      />
    </Dialog>
  );
}
