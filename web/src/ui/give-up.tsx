/** Going back to an archive loses what is newer: it says since when. */
import type { Workspace } from "../api/types";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { useMessages } from "../i18n";
import { ConfirmByName } from "./confirm-by-name";
import { Ago } from "./time";

interface GiveUpProps {
  workspace: Workspace;
  archiveKey: string;
  onClose: () => void;
}

export function GiveUpDialog({ workspace, archiveKey, onClose }: GiveUpProps) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const act = () => actions.returnToArchive(workspace, archiveKey);
  return (
    <ConfirmByName workspace={workspace} words={m.giveUp} act={act} onClose={onClose}>
      <p>
        {m.giveUp.archivedAt}: <Ago at={workspace.archived_at} />
      </p>
    </ConfirmByName>
  );
}
