/** The files of a workspace that runs. It never wakes one by itself: looking must not cost anything. */
import { useEffect, useRef } from "react";
import type { Workspace } from "../../api/types";
import { useWorkspaceActions } from "../../actions/workspace-actions";
import { placeOf } from "../../files/paths";
import { useInsideMessages } from "../../i18n/inside";
import { useAsking } from "../../live/hooks";
import { Link, useLocation } from "../../router";
import { Icon } from "../../ui/icons";
import { StatusBadge } from "../../ui/status";
import { useTitle } from "../../ui/title";
import { WorkspaceById } from "../../ui/workspace-by-id";
import { isOpen } from "../../words/editors";
import { FileView } from "./file";
import { Folder } from "./folder";
import { Uploads } from "./uploads";
import "../workspace.css";
import "./files.css";

export default function FilesPage({ id }: { id: string }) {
  return <WorkspaceById id={id}>{(workspace) => <View workspace={workspace} />}</WorkspaceById>;
}

function View({ workspace }: { workspace: Workspace }) {
  const w = useInsideMessages();
  const place = placeOf(useLocation().searchParams);
  const content = useFocusOnChange(`${place.kind}:${place.path}`);
  useTitle(w.files.of(workspace.name));
  useNoAccidentalDrops();
  return (
    <article className="files" data-workspace={workspace.id} data-status={workspace.status}>
      <Link href={`/workspaces/${workspace.id}`} className="back">
        <Icon name="left" />
        {workspace.name}
      </Link>
      <h1 className="files__title">{w.files.title}</h1>
      <Uploads workspaceId={workspace.id} />
      <div ref={content} tabIndex={-1} className="files__content">
        {!isOpen(workspace) ? (
          <NotRunning workspace={workspace} />
        ) : place.kind === "file" ? (
          <FileView id={workspace.id} path={place.path} key={place.path} />
        ) : (
          <Folder id={workspace.id} path={place.path} key={place.path} />
        )}
      </div>
    </article>
  );
}

function NotRunning({ workspace }: { workspace: Workspace }) {
  const w = useInsideMessages();
  const actions = useWorkspaceActions();
  const asking = useAsking(workspace.id);
  const starting = workspace.desired_state === "RUNNING" || asking === "start";
  const broken = workspace.status === "error" || workspace.deleted_at !== null;
  return (
    <section className="panel files__asleep">
      <StatusBadge workspace={workspace} />
      <p role="status">{broken ? w.files.notRunning : starting ? w.files.starting : w.files.asleep}</p>
      {!broken && !starting && (
        <button
          type="button"
          className="button button--primary"
          disabled={asking !== null}
          onClick={() => void actions.start(workspace)}
        >
          <Icon name="play" />
          {w.files.wake}
        </button>
      )}
    </section>
  );
}

/** A new folder begins at its content, for the keyboard and for a screen reader: the link that led there is gone. */
function useFocusOnChange(key: string) {
  const content = useRef<HTMLDivElement>(null);
  const before = useRef(key);
  useEffect(() => {
    if (before.current !== key) content.current?.focus({ preventScroll: true });
    before.current = key;
  }, [key]);
  return content;
}

/** A file dropped beside the list would replace the dashboard by that file. */
function useNoAccidentalDrops(): void {
  useEffect(() => {
    const stay = (event: DragEvent) => {
      if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "none";
    };
    window.addEventListener("dragover", stay);
    window.addEventListener("drop", stay);
    return () => {
      window.removeEventListener("dragover", stay);
      window.removeEventListener("drop", stay);
    };
  }, []);
}
