/** What disagrees between the database, the engine and the archive store, each with what repairs it. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { findingsQuery } from "../../api/queries";
import type { Finding, Repair, Workspace } from "../../api/types";
import { useLanguage, useMessages } from "../../i18n";
import { notify, notifyError } from "../../actions/notices";
import { Link } from "../../router";
import { Dialog } from "../../ui/dialog";
import { TextField } from "../../ui/fields";
import { Empty, Failed, Loading } from "../../ui/states";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import { bytes } from "../../words/size";
import "./findings.css";

interface Asked {
  finding: Finding;
  repair: Repair;
}

export function FindingsSection() {
  const m = useMessages();
  const findings = useQuery(findingsQuery);
  const [asked, setAsked] = useState<Asked | null>(null);
  const { columns } = m.admin;
  return (
    <div className="stack">
      <p className="page__lead">{m.findings.lead}</p>
      {findings.isError ? (
        <Failed error={findings.error} retry={() => void findings.refetch()} />
      ) : !findings.data ? (
        <Loading />
      ) : findings.data.items.length === 0 ? (
        <Empty>{m.findings.empty}</Empty>
      ) : (
        <Table
          label={m.admin.findings}
          rows={findings.data.items}
          rowKey={(finding) => `${finding.kind}:${finding.subject}`}
          columns={[
            {
              key: "kind",
              title: columns.kind,
              bare: true,
              cell: (f) => <strong>{m.findings.kinds[f.kind]}</strong>,
            },
            { key: "resource", title: columns.resource, cell: (f) => <Subject finding={f} /> },
            { key: "why", title: columns.why, cell: (f) => <Why finding={f} /> },
            { key: "seen", title: columns.since, cell: (f) => (f.since ? <Ago at={f.since} /> : "–") },
            {
              key: "actions",
              title: columns.actions,
              bare: true,
              cell: (finding) => <Repairs finding={finding} ask={setAsked} />,
            },
          ]}
        />
      )}
      {asked && <RepairDialog asked={asked} onClose={() => setAsked(null)} />}
    </div>
  );
}

function Subject({ finding }: { finding: Finding }) {
  if (finding.name === null) return <span className="mono">{finding.subject}</span>;
  return (
    <>
      <Link href={`/workspaces/${finding.workspace_id}`}>{finding.name}</Link>
      {finding.owner && <span className="finding__owner">{finding.owner}</span>}
    </>
  );
}

function Why({ finding }: { finding: Finding }) {
  const m = useMessages();
  const language = useLanguage();
  const size = finding.bytes === null ? "" : ` (${bytes(language, finding.bytes)})`;
  return (
    <>
      {m.findings.why[finding.kind]}
      {size}
      {finding.message && <span className="finding__message">{finding.message}</span>}
    </>
  );
}

function Repairs({ finding, ask }: { finding: Finding; ask: (asked: Asked) => void }) {
  const m = useMessages();
  if (finding.repairs.length === 0) return <span className="empty-line">{m.findings.noRepair}</span>;
  return (
    <span className="finding__repairs">
      {finding.repairs.map((repair) => (
        <button
          key={repair}
          type="button"
          className="button button--small"
          aria-label={`${m.findings.repairs[repair]}: ${finding.subject}`}
          onClick={() => ask({ finding, repair })}
        >
          {m.findings.repairs[repair]}
        </button>
      ))}
    </span>
  );
}

/** Says what will happen before it does. */
function RepairDialog({ asked, onClose }: { asked: Asked; onClose: () => void }) {
  const m = useMessages();
  const client = useQueryClient();
  const { finding, repair } = asked;
  const [name, setName] = useState(`found-${finding.workspace_id?.slice(-8) ?? ""}`);
  const [busy, setBusy] = useState(false);
  const adopts = repair === "adopt";
  const submit = async () => {
    setBusy(true);
    try {
      const body = adopts ? { repair, name: name.trim() } : { repair };
      const done = await call<Workspace>("POST", `/admin/findings/${finding.workspace_id}/repair`, body);
      notify(m.findings.done(done.name));
      onClose();
    } catch (error) {
      notifyError(error);
      setBusy(false);
    }
    void client.invalidateQueries({ queryKey: findingsQuery.queryKey });
  };
  return (
    <Dialog
      title={m.findings.repairs[repair]}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={busy || (adopts && name.trim() === "")}>
            {m.findings.repairs[repair]}
          </button>
        </>
      }
    >
      <p className={finding.name === null ? "mono" : undefined}>{finding.subject}</p>
      <p>{m.findings.effects[repair]}</p>
      {adopts && <TextField label={m.findings.adoptedName} value={name} onChange={setName} />}
    </Dialog>
  );
}
