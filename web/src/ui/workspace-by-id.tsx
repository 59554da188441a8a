/** A page about one workspace: one's own from the live stream, somebody else's, seen by an administrator, from its own. */
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { workspaceQuery } from "../api/queries";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { LiveProvider, useLive, useWorkspace } from "../live/hooks";
import { Link } from "../router";
import { Failed, Loading } from "./states";

type Page = (workspace: Workspace) => ReactNode;

export function WorkspaceById({ id, children }: { id: string; children: Page }) {
  const own = useWorkspace(id);
  const gone = useLive((live) => live.gone.has(id));
  const awaited = useLive((live) => !live.known || live.awaited.has(id));
  if (own) return children(own);
  if (gone) return <Gone />;
  if (awaited) return <Loading />;
  return <Foreign id={id}>{children}</Foreign>;
}

function Foreign({ id, children }: { id: string; children: Page }) {
  const seed = useQuery(workspaceQuery(id));
  if (seed.isError) return <Failed error={seed.error} />;
  if (!seed.data) return <Loading />;
  if (seed.data.status === "deleted") return <Gone />;
  return (
    <LiveProvider url={`/api/v1/workspaces/${id}/events`}>
      <ForeignLive seed={seed.data}>{children}</ForeignLive>
    </LiveProvider>
  );
}

function ForeignLive({ seed, children }: { seed: Workspace; children: Page }) {
  const gone = useLive((live) => live.gone.has(seed.id));
  const live = useWorkspace(seed.id);
  return gone ? <Gone /> : children(live ?? seed);
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
