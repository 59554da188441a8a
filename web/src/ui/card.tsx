/** One workspace at a glance: what it is, what is wanted of it, what happens next, and the two or three likely actions. */
import { useQuery } from "@tanstack/react-query";
import { lazy, memo, Suspense, useState } from "react";
import { attemptsQuery } from "../api/queries";
import type { Workspace } from "../api/types";
import { notifyError } from "../actions/notices";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { useLanguage, useMessages } from "../i18n";
import { useAsking, useWorkspace } from "../live/hooks";
import type { ActionName } from "../live/store";
import { Link, navigate } from "../router";
import { useUser } from "../session";
import { isOpen } from "../words/editors";
import { connectionWords, nextWords, sleepIsNear } from "../words/next";
import { troubleWords } from "../words/trouble";
import { DeleteDialog } from "./delete";
import { Icon } from "./icons";
import { Menu, type MenuItem } from "./menu";
import { EditableName } from "./name";
import { LevelRail, StatusBadge } from "./status";
import { PinMark, TagList } from "./tags";
import { useClock } from "./time";
import "./card.css";

const TagsDialog = lazy(() => import("./tags-dialog"));

/** Knows its workspace by id and follows it by itself: what happens to another one does not concern it. */
export const WorkspaceCard = memo(function WorkspaceCard({ id }: { id: string }) {
  const workspace = useWorkspace(id);
  const asking = useAsking(id);
  return workspace ? <Card workspace={workspace} asking={asking} /> : null;
});

function Card({ workspace, asking }: { workspace: Workspace; asking: ActionName | null }) {
  const m = useMessages();
  const [dialog, setDialog] = useState<"delete" | null>(null);
  const [renaming, setRenaming] = useState(false);
  const deleting = workspace.deleted_at !== null;
  return (
    <article
      className={deleting ? "card is-leaving" : "card"}
      aria-label={workspace.name}
      data-workspace={workspace.id}
      data-status={workspace.status}
    >
      <div className="card__top">
        <StatusBadge workspace={workspace} />
        {!deleting && (
          <CardMenu
            workspace={workspace}
            onRename={() => setRenaming(true)}
            onDelete={() => setDialog("delete")}
          />
        )}
      </div>
      <h2 className="card__name">
        {renaming ? (
          <EditableName workspace={workspace} onDone={() => setRenaming(false)} />
        ) : (
          <Link href={`/workspaces/${workspace.id}`}>{workspace.name}</Link>
        )}
        <PinMark workspace={workspace} />
      </h2>
      <p className="card__facts">
        <span>{workspace.image_ref}</span>
        <Connections workspace={workspace} />
      </p>
      <TagList workspace={workspace} />
      <LevelRail workspace={workspace} />
      {workspace.error_info?.is_terminal && (
        <p className="card__trouble">{troubleWords(m, workspace.error_info).what}</p>
      )}
      <div className="card__foot">
        <p className="card__next">{asking ? m.desired.asking[asking] : <Next workspace={workspace} />}</p>
        {!deleting && <KeepAwake workspace={workspace} asking={asking} />}
        {!deleting && <ActionButtons workspace={workspace} asking={asking} />}
      </div>
      {dialog === "delete" && <DeleteDialog workspace={workspace} onClose={() => setDialog(null)} />}
    </article>
  );
}

export function Next({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const language = useLanguage();
  const { data: attempts = null } = useQuery(attemptsQuery);
  return <>{useClock((nowMs) => nextWords(m, workspace, { language, nowMs, attempts }))}</>;
}

/** Offers to keep awake what is about to sleep. */
export function KeepAwake({ workspace, asking }: { workspace: Workspace; asking: ActionName | null }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const near = useClock((nowMs) => sleepIsNear(workspace, nowMs));
  if (!near) return null;
  return (
    <button
      type="button"
      className="button button--small"
      disabled={asking !== null}
      onClick={() => void actions.keepAwake(workspace, 1)}
    >
      {m.actions.keepAwakeFor(1)}
    </button>
  );
}

function Connections({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  if (workspace.observed_status !== "RUNNING") return null;
  return <span>{connectionWords(m, workspace.activity.connections)}</span>;
}

interface ActionButtonsProps {
  workspace: Workspace;
  asking: ActionName | null;
  /** On its own page the way to the details leads nowhere, and the error explains itself with its own button. */
  onItsPage?: boolean;
}

/** Open works in every state, because the link itself wakes what sleeps; start and stop are for doing it without looking. */
export function ActionButtons({ workspace, asking, onItsPage = false }: ActionButtonsProps) {
  const m = useMessages();
  const user = useUser();
  const actions = useWorkspaceActions();
  if (workspace.status === "error") {
    return (
      <div className="card__actions">
        {!onItsPage && (
          <Link className="button button--primary" href={`/workspaces/${workspace.id}`}>
            {m.actions.details}
          </Link>
        )}
        {user.role === "admin" && !onItsPage && (
          <button
            type="button"
            className="button"
            disabled={asking !== null}
            onClick={() => void actions.recover(workspace)}
          >
            {m.actions.recover}
          </button>
        )}
      </div>
    );
  }
  const wantsRunning = workspace.desired_state === "RUNNING";
  const stops = wantsRunning || workspace.queued_at !== null;
  return (
    <div className="card__actions">
      <button
        type="button"
        className="button"
        disabled={asking !== null}
        onClick={() => void (stops ? actions.stop(workspace) : actions.start(workspace))}
      >
        <Icon name={stops ? "stop" : "play"} />
        {wantsRunning ? m.actions.stop : stops ? m.actions.leaveLine : m.actions.start}
      </button>
      <a
        className="button button--primary"
        href={workspace.url}
        target="_blank"
        rel="noopener"
        aria-label={`${m.actions.openNamed(workspace.name)} (${m.actions.openNote})`}
      >
        {m.actions.open}
        <Icon name="open" />
      </a>
    </div>
  );
}

interface CardMenuProps {
  workspace: Workspace;
  onRename: () => void;
  onDelete: () => void;
  /** What a row has no button for. */
  first?: MenuItem[];
}

export function CardMenu(props: CardMenuProps) {
  const m = useMessages();
  const { workspace, first = [] } = props;
  const actions = useWorkspaceActions();
  const [tagging, setTagging] = useState(false);
  const pin = () => void actions.edit(workspace, { pinned: !workspace.pinned }).catch(notifyError);
  const items: (MenuItem | "line")[] = [
    ...first,
    { label: m.actions.details, onSelect: () => navigate(`/workspaces/${workspace.id}`) },
    { label: m.actions.files, onSelect: () => navigate(`/workspaces/${workspace.id}/files`) },
    { label: m.terminal.title, onSelect: () => navigate(`/workspaces/${workspace.id}/terminal`) },
    { label: m.actions.rename, onSelect: props.onRename },
    { label: m.actions.tags, onSelect: () => setTagging(true) },
    { label: workspace.pinned ? m.actions.unpin : m.actions.pin, onSelect: pin },
    "line",
    ...useEditors(workspace),
    "line",
    ...useRareActions(workspace),
    "line",
    { label: m.actions.delete, onSelect: props.onDelete, tone: "danger" },
  ];
  return (
    <>
      <Menu label={m.actions.moreFor(workspace.name)} button={<Icon name="more" />} items={items} />
      <Suspense>{tagging && <TagsDialog workspace={workspace} onClose={() => setTagging(false)} />}</Suspense>
    </>
  );
}

/** Editors on one's own machine. They open the home of one that runs; the command wakes. */
function useEditors(workspace: Workspace): MenuItem[] {
  const m = useMessages();
  const user = useUser();
  const load = () => import("../actions/editors");
  const names = isOpen(workspace) ? ["VS Code", "Cursor", "JetBrains"] : [];
  return [
    ...names.map((name) => ({
      label: name,
      onSelect: () => void load().then((editors) => editors.openEditor(workspace, user.id, name)),
    })),
    {
      label: m.actions.sshCommand,
      onSelect: () => void load().then((editors) => editors.copySshCommand(workspace, user.id)),
    },
  ];
}

/** What one asks for now and then: keeping awake and archiving. */
export function useRareActions(workspace: Workspace): MenuItem[] {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const until = workspace.awake_until;
  const awake = useClock((now) => until !== null && Date.parse(until) > now);
  // What is broken and does not run cannot be kept awake.
  const broken = workspace.status === "error" && workspace.observed_status !== "RUNNING";
  const items: MenuItem[] = (broken ? [] : [1, 4, 8]).map((hours) => ({
    label: m.actions.keepAwakeFor(hours),
    onSelect: () => void actions.keepAwake(workspace, hours),
  }));
  if (awake) items.push({ label: m.actions.letSleep, onSelect: () => void actions.keepAwake(workspace, 0) });
  if (workspace.desired_state !== "PENDING")
    items.push({ label: m.actions.archive, onSelect: () => void actions.archive(workspace) });
  return items;
}
