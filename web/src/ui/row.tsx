/** One workspace on one line: for those who have many. The card's words and menu, one button, and a box to choose it. */
import { memo, useState, type MouseEvent } from "react";
import { useWorkspaceActions } from "../actions/workspace-actions";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { useAsking, useWorkspace } from "../live/hooks";
import { Link } from "../router";
import { CardMenu, Next } from "./card";
import { DeleteDialog } from "./delete";
import { Icon } from "./icons";
import type { MenuItem } from "./menu";
import { EditableName } from "./name";
import { StatusBadge } from "./status";
import { PinMark, TagList } from "./tags";
import "./row.css";

interface RowProps {
  id: string;
  chosen: boolean;
  /** With `through`, everything between the last one chosen and this one, too. */
  onChoose: (id: string, through: boolean) => void;
}

/** Knows its workspace by id, as a card does. */
export const WorkspaceRow = memo(function WorkspaceRow({ id, ...rest }: RowProps) {
  const workspace = useWorkspace(id);
  return workspace ? <Row workspace={workspace} {...rest} /> : null;
});

function Row({ workspace, chosen, onChoose }: Omit<RowProps, "id"> & { workspace: Workspace }) {
  const m = useMessages();
  const asking = useAsking(workspace.id);
  const [deletes, setDeletes] = useState(false);
  const [renaming, setRenaming] = useState(false);
  const startOrStop = useStartOrStop(workspace);
  const leaving = workspace.deleted_at !== null;
  const choose = (event: MouseEvent) => onChoose(workspace.id, event.shiftKey);
  return (
    <article
      className={chosen ? "row is-chosen" : "row"}
      aria-label={workspace.name}
      data-workspace={workspace.id}
      data-status={workspace.status}
    >
      <label className="row__choose">
        <input
          type="checkbox"
          aria-label={m.list.choose(workspace.name)}
          checked={chosen}
          onClick={choose}
          readOnly
        />
      </label>
      <StatusBadge workspace={workspace} />
      <h2 className="row__name">
        {renaming ? (
          <EditableName workspace={workspace} onDone={() => setRenaming(false)} />
        ) : (
          <Link href={`/workspaces/${workspace.id}`}>{workspace.name}</Link>
        )}
        <PinMark workspace={workspace} />
      </h2>
      <p className="row__next">{asking ? m.desired.asking[asking] : <Next workspace={workspace} />}</p>
      <div className="row__image">
        {workspace.tags.length > 0 ? <TagList workspace={workspace} /> : workspace.image_ref}
      </div>
      <div className="row__actions">
        {!leaving && <RowAction workspace={workspace} />}
        {!leaving && (
          <CardMenu
            workspace={workspace}
            first={startOrStop}
            onRename={() => setRenaming(true)}
            onDelete={() => setDeletes(true)}
          />
        )}
      </div>
      {deletes && <DeleteDialog workspace={workspace} onClose={() => setDeletes(false)} />}
    </article>
  );
}

function RowAction({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  if (workspace.status === "error")
    return (
      <Link className="button button--small" href={`/workspaces/${workspace.id}`}>
        {m.actions.details}
      </Link>
    );
  return (
    <a
      className="button button--small"
      href={workspace.url}
      target="_blank"
      rel="noopener"
      aria-label={`${m.actions.openNamed(workspace.name)} (${m.actions.openNote})`}
    >
      {m.actions.open}
      <Icon name="open" />
    </a>
  );
}

function useStartOrStop(workspace: Workspace): MenuItem[] {
  const m = useMessages();
  const actions = useWorkspaceActions();
  if (workspace.status === "error") return [];
  if (workspace.queued_at !== null)
    return [{ label: m.actions.leaveLine, onSelect: () => void actions.stop(workspace) }];
  return workspace.desired_state === "RUNNING"
    ? [{ label: m.actions.stop, onSelect: () => void actions.stop(workspace) }]
    : [{ label: m.actions.start, onSelect: () => void actions.start(workspace) }];
}
