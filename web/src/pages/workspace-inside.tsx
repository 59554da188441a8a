/** Ways into a workspace besides its IDE: files, editors on one's own machine, ports. Looking wakes nothing. */
import { useQuery } from "@tanstack/react-query";
import { call } from "../api/client";
import type { Port, Ports, Workspace } from "../api/types";
import { notify } from "../actions/notices";
import { shownName } from "../files/paths";
import { useMessages } from "../i18n";
import { useInsideMessages } from "../i18n/inside";
import { Link } from "../router";
import { useUser } from "../session";
import { Icon } from "../ui/icons";
import { editorLinks, isOpen, sshHost } from "../words/editors";
import { insideError } from "../words/inside-errors";
import "./workspace-inside.css";

export function Inside({ workspace }: { workspace: Workspace }) {
  const w = useInsideMessages();
  const open = isOpen(workspace);
  // Not polled: each look is a process in the workspace. Coming back to the tab asks again.
  const ports = useQuery({
    queryKey: ["workspace", workspace.id, "ports"],
    queryFn: () => call<Ports>("GET", `/workspaces/${workspace.id}/ports`),
    enabled: open,
    retry: false,
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
      <div className="inside__part">
        <div className="panel__head">
          <h3 id="ports">{w.inside.ports}</h3>
          {open && (
            <button
              type="button"
              className="button button--small"
              disabled={ports.isFetching}
              onClick={() => void ports.refetch()}
            >
              {w.inside.refresh}
            </button>
          )}
        </div>
        <PortList workspace={workspace} ports={seen} error={open ? ports.error : null} open={open} />
      </div>
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

interface PortListProps {
  workspace: Workspace;
  ports: Ports | undefined;
  error: unknown;
  open: boolean;
}

function PortList({ workspace, ports, error, open }: PortListProps) {
  const m = useMessages();
  const w = useInsideMessages();
  if (!open) return <p className="empty-line">{w.inside.portsAsleep}</p>;
  if (error) return <p role="alert">{insideError(m, w, error)}</p>;
  if (!ports) return <p className="empty-line">{m.app.loading}</p>;
  if (ports.ports.length === 0) return <p className="empty-line">{w.inside.portsEmpty}</p>;
  return (
    <>
      <ul className="ports" aria-labelledby="ports">
        {ports.ports.map((port) => (
          <PortLine key={port.port} workspace={workspace} port={port} />
        ))}
      </ul>
      {ports.truncated && <p className="inside__note">{w.inside.portsTruncated}</p>}
    </>
  );
}

function PortLine({ workspace, port }: { workspace: Workspace; port: Port }) {
  const w = useInsideMessages();
  const command = `codehub port-forward ${workspace.id} ${port.port}`;
  return (
    <li>
      <span className="ports__line">
        <strong className="ports__number">{port.port}</strong>
        <span className="ports__process">
          <bdi>{port.process ? shownName(port.process) : w.inside.unknownProcess}</bdi>
        </span>
        {port.is_ide && <span className="tag">{w.inside.ide}</span>}
        {port.url && (
          <a
            className="button button--small"
            href={port.url}
            target="_blank"
            rel="noopener"
            aria-label={w.inside.openPort(port.port)}
          >
            <Icon name="open" />
          </a>
        )}
      </span>
      {!port.url && (
        <span className="inside__note">
          {w.inside.loopbackOnly} <code className="mono">{command}</code>{" "}
          <CopyButton text={command} label={w.inside.copyCommand(command)} short />
        </span>
      )}
    </li>
  );
}

/** The clipboard is only there on HTTPS and localhost; elsewhere the command is shown to be copied by hand. */
function CopyButton({ text, label, short }: { text: string; label: string; short?: boolean }) {
  const m = useMessages();
  if (!window.isSecureContext) return short ? null : <code className="mono">{text}</code>;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    notify(m.app.copied);
  };
  return (
    <button
      type="button"
      className="button button--small"
      aria-label={short ? label : undefined}
      onClick={() => void copy()}
    >
      {short ? m.app.copy : label}
    </button>
  );
}
