/** What listens in a workspace, and who may open it. Looking wakes nothing and keeps nothing awake. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client";
import type { Port, Ports, Share, Shares, Workspace } from "../api/types";
import { shownName } from "../files/paths";
import { useMessages } from "../i18n";
import { useInsideMessages } from "../i18n/inside";
import { Icon } from "../ui/icons";
import { Ago } from "../ui/time";
import { insideError } from "../words/inside-errors";
import { ShareDialog } from "./workspace-share";
import "./workspace-ports.css";

interface PortsProps {
  workspace: Workspace;
  ports: Ports | undefined;
  error: unknown;
  open: boolean;
}

/** A port that something listens on, one that has a share or a label, or both. */
interface Line {
  number: number;
  port: Port | undefined;
  share: Share | undefined;
}

export function WorkspacePorts({ workspace, ports, error, open }: PortsProps) {
  const w = useInsideMessages();
  const client = useQueryClient();
  const key = ["workspace", workspace.id, "shares"];
  const shares = useQuery({
    queryKey: key,
    queryFn: () => call<Shares>("GET", `/workspaces/${workspace.id}/shares`),
    retry: false,
  });
  const [sharing, setSharing] = useState<number | null>(null);
  const lines = linesOf(open ? ports : undefined, shares.data);
  return (
    <div className="inside__part">
      <h3 id="ports">{w.inside.ports}</h3>
      <PortList
        lines={lines}
        ports={ports}
        error={error}
        open={open}
        onShare={shares.data ? setSharing : undefined}
      />
      {sharing !== null && shares.data && (
        <ShareDialog
          workspace={workspace}
          port={sharing}
          share={shares.data.shares.find((each) => each.port === sharing)}
          rules={shares.data}
          onChanged={() => client.invalidateQueries({ queryKey: key })}
          onClose={() => setSharing(null)}
        />
      )}
    </div>
  );
}

function linesOf(ports: Ports | undefined, shares: Shares | undefined): Line[] {
  const numbers = new Set([...(ports?.ports ?? []), ...(shares?.shares ?? [])].map((each) => each.port));
  return [...numbers]
    .sort((a, b) => a - b)
    .map((number) => ({
      number,
      port: ports?.ports.find((each) => each.port === number),
      share: shares?.shares.find((each) => each.port === number),
    }));
}

interface ListProps extends Omit<PortsProps, "workspace"> {
  lines: Line[];
  onShare: ((port: number) => void) | undefined;
}

function PortList({ lines, ports, error, open, onShare }: ListProps) {
  const m = useMessages();
  const w = useInsideMessages();
  return (
    <>
      {lines.length > 0 && (
        <ul className="ports" aria-labelledby="ports">
          {lines.map((line) => (
            <PortLine key={line.number} line={line} onShare={onShare} looked={open && ports !== undefined} />
          ))}
        </ul>
      )}
      {!open ? (
        <p className="empty-line">{w.inside.portsAsleep}</p>
      ) : error ? (
        <p role="alert">{insideError(m, w, error)}</p>
      ) : !ports ? (
        <p className="empty-line">{m.app.loading}</p>
      ) : (
        lines.length === 0 && <p className="empty-line">{w.inside.portsEmpty}</p>
      )}
      {ports?.truncated && <p className="inside__note">{w.inside.portsTruncated}</p>}
    </>
  );
}

interface LineProps {
  line: Line;
  onShare: ((port: number) => void) | undefined;
  looked: boolean;
}

function PortLine({ line: { number, port, share }, onShare, looked }: LineProps) {
  const w = useInsideMessages();
  const process = port ? (port.process ? shownName(port.process) : w.inside.unknownProcess) : null;
  return (
    <li>
      <span className="ports__line">
        <strong className="ports__number">{number}</strong>
        {share?.label && <bdi className="ports__label">{share.label}</bdi>}
        <span className="ports__process">
          {process !== null ? <bdi>{process}</bdi> : looked && w.inside.silent}
        </span>
        {port?.is_ide && <span className="tag">{w.inside.ide}</span>}
        <span className="ports__ways">
          {share && <ShareTag share={share} />}
          {port && (
            <a
              className="button button--small"
              href={port.url}
              target="_blank"
              rel="noopener"
              aria-label={w.inside.openPort(number)}
            >
              <Icon name="open" />
            </a>
          )}
          {onShare && !port?.is_ide && (
            <button
              type="button"
              className="button button--small"
              aria-label={w.share.shareNamed(number)}
              onClick={() => onShare(number)}
            >
              {w.share.share}
            </button>
          )}
        </span>
      </span>
    </li>
  );
}

/** Who may open it besides its owner. Nothing is said of what is private from the start. */
function ShareTag({ share }: { share: Share }) {
  const w = useInsideMessages();
  if (share.level === "private") return null;
  if (share.level_now === "private") return <span className="tag">{w.share.over}</span>;
  return (
    <span className="tag">
      {w.share.levels[share.level_now]}
      {share.expires_at && (
        <>
          {` · ${w.share.endsShort} `}
          <Ago at={share.expires_at} />
        </>
      )}
    </span>
  );
}
