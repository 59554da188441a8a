/** A name one can change where it stands: Enter keeps it, Escape does not. */
import { useState } from "react";
import type { Workspace } from "../api/types";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { useMessages } from "../i18n";
import { notifyError } from "../actions/notices";
import "./name.css";

export function EditableName({ workspace, onDone }: { workspace: Workspace; onDone: () => void }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const [name, setName] = useState(workspace.name);
  const keep = () => {
    onDone();
    const wanted = name.trim();
    if (wanted && wanted !== workspace.name) actions.edit(workspace, { name: wanted }).catch(notifyError);
  };
  return (
    <input
      className="input input--name"
      aria-label={m.actions.renameNamed(workspace.name)}
      value={name}
      maxLength={64}
      // The person just asked to rename: the caret belongs here.
      // oxlint-disable-next-line jsx-a11y/no-autofocus
      autoFocus
      onFocus={(event) => event.target.select()}
      onChange={(event) => setName(event.target.value)}
      onBlur={keep}
      onKeyDown={(event) => {
        // A Korean syllable is finished with Enter, too: that one is not for us.
        if (event.nativeEvent.isComposing) return;
        if (event.key === "Enter") keep();
        if (event.key === "Escape") onDone();
      }}
    />
  );
}
