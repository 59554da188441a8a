import { lazy, Suspense, useState, type ReactNode } from "react";
import type { Workspace } from "../api/types";
import { useMessages, type Messages } from "../i18n";
import { Next } from "../ui/card";
import { TagList } from "../ui/tags";
import { Ago, useClock } from "../ui/time";
import { connectionWords } from "../words/next";
import { relativeTime } from "../words/time";
import "./workspace-facts.css";

const TagsDialog = lazy(() => import("../ui/tags-dialog"));

export function Facts({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const { activity } = workspace;
  return (
    <section className="panel" aria-labelledby="facts">
      <h2 id="facts">{m.detail.activity}</h2>
      {workspace.description && <p className="panel__lead">{workspace.description}</p>}
      <dl className="facts">
        <Fact name={m.detail.connections}>{connectionWords(m, activity.connections)}</Fact>
        <Fact name={m.detail.lastSeen}>
          <LastSeen workspace={workspace} />
        </Fact>
        <Fact name={m.detail.next}>
          <Next workspace={workspace} />
        </Fact>
        <Fact name={m.list.tags}>
          <Tags workspace={workspace} />
        </Fact>
        <Fact name={m.detail.image}>{workspace.image_ref}</Fact>
        {workspace.node_local_home && (
          <>
            <Fact name={m.detail.home}>{m.detail.homeOnNode}</Fact>
            <Fact name={m.detail.archivedAt}>
              {workspace.archive_key ? <Ago at={workspace.archived_at} /> : m.detail.notArchived}
            </Fact>
          </>
        )}
        <Fact name={m.detail.created}>
          <Ago at={workspace.created_at} />
        </Fact>
        <Fact name={m.detail.observed}>
          <Ago at={workspace.observed_at} />
        </Fact>
        <Fact name={m.detail.link}>
          <a href={workspace.url} className="mono">
            {workspace.url}
          </a>
        </Fact>
        <Fact name={m.detail.identity}>
          <span className="mono">{workspace.id}</span>
        </Fact>
      </dl>
    </section>
  );
}

function Tags({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const [editing, setEditing] = useState(false);
  return (
    <span className="facts__tags">
      <TagList workspace={workspace} />
      {workspace.deleted_at === null && (
        <button type="button" className="button button--small" onClick={() => setEditing(true)}>
          {m.actions.tags}
        </button>
      )}
      <Suspense>{editing && <TagsDialog workspace={workspace} onClose={() => setEditing(false)} />}</Suspense>
    </span>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="facts__row">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function LastSeen({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const at = workspace.activity.last_seen_at ?? workspace.last_access_at;
  const kind = kindWords(m, workspace.activity.kind);
  const time = useClock((now) => relativeTime(m, at, now));
  return <>{kind ? m.detail.lastSeenBy(time, kind) : time}</>;
}

function kindWords(m: Messages, kind: string | null): string | null {
  return kind === null ? null : ((m.detail.kinds as Record<string, string>)[kind] ?? kind);
}
