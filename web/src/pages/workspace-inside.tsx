/** Ways into a workspace besides its IDE: files, editors on one's own machine, ports. Looking wakes nothing. */
import { useQuery } from "@tanstack/react-query";
import { call } from "../api/client";
import type { Ports, Workspace } from "../api/types";
import { useInsideMessages } from "../i18n/inside";
import { Link } from "../router";
import { useUser } from "../session";
import { CopyButton } from "../ui/copy";
import { Icon } from "../ui/icons";
import { editorLinks, isOpen, sshHost } from "../words/editors";
import { WorkspacePorts } from "./workspace-ports";
import { Processes } from "./workspace-processes";
import "./workspace-inside.css";

const LOOK_EVERY_MS = 5000;

export function Inside({ workspace }: { workspace: Workspace }) {
  const w = useInsideMessages();
  const open = isOpen(workspace);
  // Each look is a short process in the workspace: asked only while somebody sees the tab.
  const ports = useQuery({
    queryKey: ["workspace", workspace.id, "ports"],
    queryFn: () => call<Ports>("GET", `/workspaces/${workspace.id}/ports`),
    enabled: open,
    retry: false,
    refetchInterval: LOOK_EVERY_MS,
  });
  const seen = open ? ports.data : undefined;
  return (
    <section className="panel inside" aria-labelledby="inside">
      <h2 id="inside">{w.inside.title}</h2>
      <div className="inside__ways">
        <Link className="button" href={`/workspaces/${workspace.id}/files`}>
          <Icon name="folder" />
          {w.files.title}
        </Link>
      </div>
      <Editors workspace={workspace} home={seen?.home ?? null} />
      <WorkspacePorts workspace={workspace} ports={seen} error={open ? ports.error : null} open={open} />
      <Processes workspace={workspace} />
    </section>
  );
}

function Editors({ workspace, home }: { workspace: Workspace; home: string | null }) {
  const w = useInsideMessages();
  const host = sshHost(workspace, useUser().id);
  return (
    <div className="inside__part">
      <h3>{w.inside.editors}</h3>
      <div className="inside__ways">
        {home?.startsWith("/") &&
          editorLinks(host, home).map((editor) => (
            <a key={editor.name} className="button button--small" href={editor.address}>
              {editor.name}
            </a>
          ))}
        <CopyButton text={`ssh ${host}`} label={w.inside.copySsh} />
      </div>
      {!home && <p className="inside__note">{w.inside.editorsRunning}</p>}
      <p className="inside__note">
        {w.inside.editorsOnce} <code className="mono">codehub config-ssh</code>
      </p>
    </div>
  );
}
