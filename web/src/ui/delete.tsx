/** The one thing that cannot be undone asks for the name, so that it cannot be done by a slip. */
import { useState } from "react";
import type { Workspace } from "../api/types";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { useMessages } from "../i18n";
import { Dialog } from "./dialog";
import { TextField } from "./fields";

export function DeleteDialog({ workspace, onClose }: { workspace: Workspace; onClose: () => void }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const sure = typed.trim() === workspace.name;
  const submit = async () => {
    if (!sure) return;
    setBusy(true);
    if (await actions.remove(workspace)) onClose();
    else setBusy(false);
  };
  return (
    <Dialog
      title={m.remove.title(workspace.name)}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--danger" disabled={!sure || busy}>
            {m.remove.submit}
          </button>
        </>
      }
    >
      <p>{m.remove.text}</p>
      <TextField
        label={m.remove.type(workspace.name)}
        value={typed}
        onChange={setTyped}
        autoComplete="off"
        spellCheck={false}
      />
    </Dialog>
  );
}
