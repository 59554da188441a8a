/** Change the tags of a workspace: one line of words, which is how people paste and copy them. */
import { useState } from "react";
import { useWorkspaceActions } from "../actions/workspace-actions";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { errorSentence, fieldError } from "../words/errors";
import { Dialog } from "./dialog";
import { TextField } from "./fields";

export default function TagsDialog({ workspace, onClose }: { workspace: Workspace; onClose: () => void }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const [text, setText] = useState(workspace.tags.join(", "));
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await actions.edit(workspace, { tags: tagsIn(text) });
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={m.list.tagsOf(workspace.name)}
      onClose={onClose}
      onSubmit={() => void save()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={busy}>
            {m.app.save}
          </button>
        </>
      }
    >
      <TextField
        label={m.list.tags}
        hint={m.list.tagsHint}
        value={text}
        onChange={setText}
        error={error === null ? null : (fieldError(m, error, "tags") ?? errorSentence(m, error))}
        autoComplete="off"
      />
    </Dialog>
  );
}

export function tagsIn(text: string): string[] {
  return text
    .split(",")
    .map((tag) => tag.trim())
    .filter((tag) => tag !== "");
}
