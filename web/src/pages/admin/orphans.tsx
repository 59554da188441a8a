import { useQuery } from "@tanstack/react-query";
import { orphansQuery } from "../../api/queries";
import { useLanguage, useMessages } from "../../i18n";
import { Empty, Failed, Loading } from "../../ui/states";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import { bytes } from "../../words/size";

export function OrphansSection() {
  const m = useMessages();
  const language = useLanguage();
  const orphans = useQuery(orphansQuery);
  const { columns } = m.admin;
  const reasons = m.admin.orphanReasons as Record<string, string>;
  const kinds = m.admin.orphanKinds as Record<string, string>;
  return (
    <div className="stack">
      <p className="page__lead">{m.admin.orphansLead}</p>
      {orphans.isError ? (
        <Failed error={orphans.error} retry={() => void orphans.refetch()} />
      ) : !orphans.data ? (
        <Loading />
      ) : orphans.data.items.length === 0 ? (
        <Empty>{m.admin.orphansEmpty}</Empty>
      ) : (
        <Table
          label={m.admin.orphans}
          rows={orphans.data.items}
          rowKey={(orphan) => `${orphan.kind}:${orphan.name}`}
          columns={[
            {
              key: "kind",
              title: columns.kind,
              bare: true,
              cell: (o) => <strong>{kinds[o.kind] ?? o.kind}</strong>,
            },
            { key: "resource", title: columns.resource, cell: (o) => <span className="mono">{o.name}</span> },
            { key: "why", title: columns.why, cell: (o) => reasons[o.why] ?? o.why },
            {
              key: "seen",
              title: columns.firstSeen,
              cell: (o) => (o.first_seen_at ? <Ago at={o.first_seen_at} /> : "–"),
            },
            {
              key: "size",
              title: columns.size,
              cell: (o) => (o.bytes === null ? "–" : bytes(language, o.bytes)),
            },
          ]}
        />
      )}
    </div>
  );
}
