/** Deleting a workspace, home and all. */
import type { Workspace } from "../api/types";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { useMessages } from "../i18n";
import { ConfirmByName } from "./confirm-by-name";

export function DeleteDialog({ workspace, onClose }: { workspace: Workspace; onClose: () => void }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const act = () => actions.remove(workspace);
  return <ConfirmByName workspace={workspace} words={m.remove} act={act} onClose={onClose} />;
}
