/** One workspace: why it is as it is, what happened to it, and everything one can set about it. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { workspaceQuery } from "../api/queries";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { LiveProvider, useAsking, useLive, useWorkspace } from "../live/hooks";
import { Link } from "../router";
import { ActionButtons, KeepAwake, Next, useRareActions } from "../ui/card";
import { DeleteDialog } from "../ui/delete";
import { Icon } from "../ui/icons";
import { Menu } from "../ui/menu";
import { EditableName } from "../ui/name";
import { Failed, Loading } from "../ui/states";
import { LevelRail, StatusBadge } from "../ui/status";
import { useTitle } from "../ui/title";
import { Facts } from "./workspace-facts";
import { Archives } from "./workspace-archives";
import { Logs } from "./workspace-logs";
import { Settings } from "./workspace-settings";
import { Timeline } from "./workspace-timeline";
import { Trouble } from "./workspace-trouble";
import "./workspace.css";

export default function WorkspacePage({ id }: { id: string }) {
  const own = useWorkspace(id);
  const gone = useLive((live) => live.gone.has(id));
  const awaited = useLive((live) => !live.known || live.awaited.has(id));
  if (own) return <View workspace={own} />;
  if (gone) return <Gone />;
  if (awaited) return <Loading />;
  return <Foreign id={id} />;
}

/** Somebody else's, seen by an administrator: it has a stream of its own. */
function Foreign({ id }: { id: string }) {
  const seed = useQuery(workspaceQuery(id));
  if (seed.isError) return <Failed error={seed.error} />;
  if (!seed.data) return <Loading />;
  if (seed.data.status === "deleted") return <Gone />;
  return (
    <LiveProvider url={`/api/v1/workspaces/${id}/events`}>
      <ForeignView seed={seed.data} />
    </LiveProvider>
  );
}

function ForeignView({ seed }: { seed: Workspace }) {
  const gone = useLive((live) => live.gone.has(seed.id));
  const live = useWorkspace(seed.id);
  if (gone) return <Gone />;
  return <View workspace={live ?? seed} />;
}

function Gone() {
  const m = useMessages();
  return (
    <div className="not-found">
      <h1>{m.detail.gone}</h1>
      <Link className="button" href="/">
        {m.app.toWorkspaces}
      </Link>
    </div>
  );
}

function View({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const asking = useAsking(workspace.id);
  const deleting = workspace.deleted_at !== null;
  useTitle(`${workspace.name}: ${m.status[workspace.status]}`);
  return (
    <article className="detail" data-workspace={workspace.id} data-status={workspace.status}>
      <Link href="/" className="back">
        <Icon name="left" />
        {m.app.workspaces}
      </Link>
      <Head workspace={workspace} />
      <section className="panel hero">
        <div className="hero__state">
          <StatusBadge workspace={workspace} />
          <p className="hero__next">{asking ? m.desired.asking[asking] : <Next workspace={workspace} />}</p>
        </div>
        <LevelRail workspace={workspace} />
        {!deleting && <KeepAwake workspace={workspace} asking={asking} />}
        {!deleting && <ActionButtons workspace={workspace} asking={asking} onItsPage />}
      </section>
      {workspace.error_info && <Trouble workspace={workspace} info={workspace.error_info} asking={asking} />}
      <div className="detail__columns">
        <div className="detail__main">
          <Timeline workspace={workspace} />
          <Logs workspace={workspace} />
        </div>
        <div className="detail__side">
          <Facts workspace={workspace} />
          <Archives workspace={workspace} />
          {!deleting && <Settings workspace={workspace} />}
        </div>
      </div>
    </article>
  );
}

function Head({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const [renaming, setRenaming] = useState(false);
  const [removing, setRemoving] = useState(false);
  const quiet = useRareActions(workspace);
  return (
    <div className="page__head">
      {renaming ? (
        <EditableName workspace={workspace} onDone={() => setRenaming(false)} />
      ) : (
        <h1 className="detail__name">
          {workspace.name}
          <button
            type="button"
            className="button button--quiet button--icon"
            aria-label={m.actions.renameNamed(workspace.name)}
            onClick={() => setRenaming(true)}
          >
            <Icon name="pencil" />
          </button>
        </h1>
      )}
      {workspace.deleted_at === null && (
        <Menu
          label={m.actions.moreFor(workspace.name)}
          className="button"
          button={
            <>
              {m.app.more}
              <Icon name="down" />
            </>
          }
          items={[
            ...quiet,
            "line",
            { label: m.actions.delete, onSelect: () => setRemoving(true), tone: "danger" },
          ]}
        />
      )}
      {removing && <DeleteDialog workspace={workspace} onClose={() => setRemoving(false)} />}
    </div>
  );
}
