import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { auditQuery } from "../../api/queries";
import type { AuditEntry } from "../../api/types";
import { useMessages } from "../../i18n";
import { TextField } from "../../ui/fields";
import { Empty, Failed, Loading } from "../../ui/states";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";

export function AuditSection() {
  const m = useMessages();
  const audit = useInfiniteQuery(auditQuery);
  const [filter, setFilter] = useState("");
  if (audit.isError) return <Failed error={audit.error} retry={() => void audit.refetch()} />;
  if (!audit.data) return <Loading />;
  const all = audit.data.pages.flatMap((page) => page.items);
  const words = filter.trim().toLowerCase();
  const rows = all.filter((entry) => words === "" || textOf(entry).toLowerCase().includes(words));
  const { columns } = m.admin;
  return (
    <div className="stack">
      <p className="page__lead">{m.admin.auditLead}</p>
      <div className="filters">
        <TextField label={m.admin.filterAudit} type="search" value={filter} onChange={setFilter} />
      </div>
      {rows.length === 0 ? (
        <Empty>{m.admin.auditEmpty}</Empty>
      ) : (
        <Table
          label={m.admin.audit}
          rows={rows}
          rowKey={(entry) => String(entry.seq)}
          columns={[
            { key: "action", title: columns.action, bare: true, cell: (e) => <strong>{e.action}</strong> },
            { key: "actor", title: columns.actor, cell: (e) => e.actor.replace(/^user:/, "") },
            {
              key: "subject",
              title: columns.subject,
              cell: (e) => <span className="mono">{e.subject ?? "–"}</span>,
            },
            {
              key: "detail",
              title: columns.detail,
              cell: (e) => <span className="mono">{detailOf(e)}</span>,
            },
            { key: "at", title: columns.at, cell: (e) => <Ago at={e.at} /> },
          ]}
        />
      )}
      {audit.hasNextPage && (
        <button
          type="button"
          className="button"
          disabled={audit.isFetching}
          onClick={() => void audit.fetchNextPage()}
        >
          {m.detail.older}
        </button>
      )}
    </div>
  );
}

function detailOf({ detail }: AuditEntry): string {
  const parts = Object.entries(detail).map(
    ([key, value]) => `${key}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`,
  );
  return parts.join(" ") || "–";
}

const textOf = (entry: AuditEntry) =>
  `${entry.action} ${entry.actor} ${entry.subject ?? ""} ${detailOf(entry)}`;
