/** Every setting of this replica with the value it has now; what differs from the default comes first. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { settingsQuery } from "../../api/queries";
import type { Setting } from "../../api/types";
import { useMessages } from "../../i18n";
import { TextField } from "../../ui/fields";
import { Empty, Failed, Loading } from "../../ui/states";
import { Table } from "../../ui/table";

export function SettingsSection() {
  const m = useMessages();
  const settings = useQuery(settingsQuery);
  const [filter, setFilter] = useState("");
  if (settings.isError) return <Failed error={settings.error} retry={() => void settings.refetch()} />;
  if (!settings.data) return <Loading />;
  const words = filter.trim().toLowerCase();
  const matching = settings.data.items.filter((each) =>
    `${each.name} ${each.meaning}`.toLowerCase().includes(words),
  );
  const rows = [...matching.filter((each) => each.changed), ...matching.filter((each) => !each.changed)];
  return (
    <div className="stack">
      <p className="page__lead">{m.admin.settingsLead}</p>
      <div className="filters">
        <TextField label={m.admin.filterAudit} type="search" value={filter} onChange={setFilter} />
      </div>
      {rows.length === 0 ? (
        <Empty>{m.admin.settingsEmpty}</Empty>
      ) : (
        <Table
          label={m.admin.settings}
          rows={rows}
          rowKey={(each) => each.name}
          columns={[
            {
              key: "name",
              title: m.admin.columns.name,
              bare: true,
              cell: (each) => <strong className="mono">{each.name}</strong>,
            },
            { key: "value", title: m.admin.columns.value, cell: (each) => <Value setting={each} /> },
            { key: "meaning", title: m.admin.columns.meaning, cell: (each) => each.meaning },
          ]}
        />
      )}
    </div>
  );
}

function Value({ setting }: { setting: Setting }) {
  const m = useMessages();
  if (setting.secret && setting.changed) return <span className="tag">{m.admin.secretSet}</span>;
  if (!setting.changed) return <span className="mono setting__default">{setting.default}</span>;
  return <span className="mono">{setting.value ?? "–"}</span>;
}
