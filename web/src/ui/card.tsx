/** One workspace at a glance: what it is, what is wanted of it, what happens next, and the two or three likely actions. */
import { useState } from "react";
import type { Workspace } from "../api/types";
import { useWishes } from "../api/wishes";
import { useLanguage, useMessages } from "../i18n";
import type { Wish } from "../live/store";
import { Link, navigate } from "../router";
import { useUser } from "../session";
import { connectionWords, nextWords } from "../words/next";
import { troubleWords } from "../words/trouble";
import { DeleteDialog } from "./delete";
import { Icon } from "./icons";
import { Menu, type MenuItem } from "./menu";
import { EditableName } from "./name";
import { LevelRail, StatusBadge } from "./status";
import { useNow } from "./time";

export function WorkspaceCard({ workspace, asking }: { workspace: Workspace; asking: Wish | null }) {
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
      </h2>
      <p className="card__facts">
        <span>{workspace.image_ref}</span>
        <Connections workspace={workspace} />
      </p>
      <LevelRail workspace={workspace} />
      {workspace.error_info?.is_terminal && (
        <p className="card__trouble">{troubleWords(m, workspace.error_info).what}</p>
      )}
      <div className="card__foot">
        <p className="card__next">{asking ? m.wish.asking[asking] : <Next workspace={workspace} />}</p>
        {!deleting && <WishButtons workspace={workspace} asking={asking} />}
      </div>
      {dialog === "delete" && <DeleteDialog workspace={workspace} onClose={() => setDialog(null)} />}
    </article>
  );
}

export function Next({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  return <>{nextWords(m, useLanguage(), workspace, useNow())}</>;
}

function Connections({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  if (workspace.observed_status !== "RUNNING") return null;
  return <span>{connectionWords(m, workspace.activity.connections)}</span>;
}

interface WishButtonsProps {
  workspace: Workspace;
  asking: Wish | null;
  /** On its own page the way to the details leads nowhere, and the error explains itself with its own button. */
  onItsPage?: boolean;
}

/** Open works in every state, because the link itself wakes what sleeps; start and stop are for doing it without looking. */
export function WishButtons({ workspace, asking, onItsPage = false }: WishButtonsProps) {
  const m = useMessages();
  const user = useUser();
  const wishes = useWishes();
  if (workspace.status === "error") {
    return (
      <div className="card__actions">
        {!onItsPage && (
          <Link className="button" href={`/workspaces/${workspace.id}`}>
            {m.actions.details}
          </Link>
        )}
        {user.role === "admin" && !onItsPage && (
          <button
            type="button"
            className="button"
            disabled={asking !== null}
            onClick={() => void wishes.recover(workspace)}
          >
            {m.actions.recover}
          </button>
        )}
      </div>
    );
  }
  const wantsRunning = workspace.desired_state === "RUNNING";
  return (
    <div className="card__actions">
      <button
        type="button"
        className="button"
        disabled={asking !== null}
        onClick={() => void (wantsRunning ? wishes.stop(workspace) : wishes.start(workspace))}
      >
        <Icon name={wantsRunning ? "stop" : "play"} />
        {wantsRunning ? m.actions.stop : m.actions.start}
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

function CardMenu(props: { workspace: Workspace; onRename: () => void; onDelete: () => void }) {
  const m = useMessages();
  const { workspace } = props;
  const items: (MenuItem | "line")[] = [
    { label: m.actions.details, onSelect: () => navigate(`/workspaces/${workspace.id}`) },
    { label: m.actions.rename, onSelect: props.onRename },
    "line",
    ...useQuietWishes(workspace),
    "line",
    { label: m.actions.delete, onSelect: props.onDelete, tone: "danger" },
  ];
  return <Menu label={m.actions.moreFor(workspace.name)} button={<Icon name="more" />} items={items} />;
}

/** The wishes one has now and then: keeping awake and archiving. */
export function useQuietWishes(workspace: Workspace): MenuItem[] {
  const m = useMessages();
  const wishes = useWishes();
  const now = useNow();
  const awake = workspace.awake_until !== null && Date.parse(workspace.awake_until) > now;
  // What is broken and does not run cannot be kept awake.
  const broken = workspace.status === "error" && workspace.observed_status !== "RUNNING";
  const items: MenuItem[] = (broken ? [] : [1, 4, 8]).map((hours) => ({
    label: m.actions.keepAwakeFor(hours),
    onSelect: () => void wishes.keepAwake(workspace, hours),
  }));
  if (awake) items.push({ label: m.actions.letSleep, onSelect: () => void wishes.keepAwake(workspace, 0) });
  if (workspace.desired_state !== "PENDING")
    items.push({ label: m.actions.archive, onSelect: () => void wishes.archive(workspace) });
  return items;
}
