/** One workspace: why it is as it is, what happened to it, and everything one can set about it. */
import { useState } from "react";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { useAsking } from "../live/hooks";
import { Link } from "../router";
import { ActionButtons, KeepAwake, Next, useRareActions } from "../ui/card";
import { DeleteDialog } from "../ui/delete";
import { Icon } from "../ui/icons";
import { Menu } from "../ui/menu";
import { EditableName } from "../ui/name";
import { LevelRail, StatusBadge } from "../ui/status";
import { useTitle } from "../ui/title";
import { WorkspaceById } from "../ui/workspace-by-id";
import { Facts } from "./workspace-facts";
import { Archives } from "./workspace-archives";
import { Inside } from "./workspace-inside";
import { Logs } from "./workspace-logs";
import { Settings } from "./workspace-settings";
import { Timeline } from "./workspace-timeline";
import { Trouble } from "./workspace-trouble";
import "./workspace.css";

export default function WorkspacePage({ id }: { id: string }) {
  return <WorkspaceById id={id}>{(workspace) => <View workspace={workspace} />}</WorkspaceById>;
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
          {!deleting && <Inside workspace={workspace} />}
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
        <div className="detail__tools">
          <Link className="button" href={`/workspaces/${workspace.id}/terminal`}>
            {m.terminal.title}
          </Link>
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
        </div>
      )}
      {removing && <DeleteDialog workspace={workspace} onClose={() => setRemoving(false)} />}
    </div>
  );
}
