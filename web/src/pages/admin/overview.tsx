import { useQuery, useQueryClient } from "@tanstack/react-query";
import { allSavingsQuery, coordinatorsQuery, limitsQuery, overviewQuery } from "../../api/queries";
import type { Overview, Status } from "../../api/types";
import { useLanguage, useMessages, type Messages } from "../../i18n";
import { Failed, Loading } from "../../ui/states";
import { familyOf, StatusMark } from "../../ui/status";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import { leaderRows, rivalHolders, type LeaderRow } from "../../words/leaders";
import { bytes } from "../../words/size";
import { duration } from "../../words/time";
import "./overview.css";

export function OverviewSection() {
  const m = useMessages();
  const client = useQueryClient();
  const overview = useQuery(overviewQuery);
  const coordinators = useQuery(coordinatorsQuery);
  const limits = useQuery(limitsQuery);
  const savings = useQuery(allSavingsQuery);
  const language = useLanguage();
  const refresh = () => {
    void client.invalidateQueries({ queryKey: ["admin"] });
    void limits.refetch();
  };
  if (overview.isError) return <Failed error={overview.error} retry={refresh} />;
  if (!overview.data) return <Loading />;
  return (
    <div className="stack">
      <Rivals holders={rivalHolders(coordinators.data)} />
      <section className="figures" aria-label={m.admin.overview}>
        <div className="figure">
          <span className="figure__name">{m.admin.limits}</span>
          <span className="figure__value">
            {limits.data ? m.admin.limitsText(limits.data.global.used, limits.data.global.allowed) : "…"}
          </span>
        </div>
        <div className="figure">
          <span className="figure__name">{m.admin.archiveBytes}</span>
          <span className="figure__value">
            {overview.data.archive_bytes === null ? "–" : bytes(language, overview.data.archive_bytes)}
          </span>
        </div>
        <div className="figure">
          <span className="figure__name">{m.admin.saved}</span>
          <span className="figure__value">
            {savings.data
              ? m.admin.savedText(
                  new Intl.NumberFormat(language).format(Math.floor(savings.data.hours_saved)),
                )
              : "…"}
          </span>
        </div>
        <div className="figure figure--wide">
          <span className="figure__name">{m.admin.counts}</span>
          <Counts counts={overview.data.counts} />
        </div>
      </section>
      <section className="panel" aria-labelledby="coordinators">
        <div className="panel__head">
          <h2 id="coordinators">{m.admin.coordinators}</h2>
          <button type="button" className="button button--small" onClick={refresh}>
            {m.app.refresh}
          </button>
        </div>
        {coordinators.isError && <Failed error={coordinators.error} />}
        {coordinators.data && (
          <p className="panel__lead">
            {m.admin.coordinatorsLead(
              coordinators.data.node_id,
              duration(m, coordinators.data.uptime_seconds),
            )}
          </p>
        )}
        <Coordinators rows={leaderRows(overview.data, coordinators.data)} />
      </section>
    </div>
  );
}

function Counts({ counts }: { counts: Overview["counts"] }) {
  const m = useMessages();
  const present = (Object.keys(m.status) as Status[]).filter((status) => (counts[status] ?? 0) > 0);
  if (present.length === 0) return <p className="empty-line">{m.admin.noneYet}</p>;
  return (
    <ul className="counts">
      {present.map((status) => (
        <li key={status} className={`status status--${familyOf(status)}`}>
          <StatusMark family={familyOf(status)} />
          <span>{m.status[status]}</span>
          <strong>{counts[status]}</strong>
        </li>
      ))}
    </ul>
  );
}

function Rivals({ holders }: { holders: string[] }) {
  const m = useMessages();
  if (holders.length === 0) return null;
  return (
    <div className="shout" role="alert">
      <strong>{m.admin.rivals}</strong>
      <p>{m.admin.rivalsWhatToDo(holders.join(", "))}</p>
    </div>
  );
}

function Coordinators({ rows }: { rows: LeaderRow[] }) {
  const m = useMessages();
  const { columns } = m.admin;
  return (
    <Table
      label={m.admin.coordinators}
      rows={rows}
      rowKey={(row) => row.lock}
      columns={[
        {
          key: "name",
          title: columns.what,
          bare: true,
          cell: (row) => <strong>{nameWords(m, row.name)}</strong>,
        },
        {
          key: "leader",
          title: columns.leader,
          cell: (row) =>
            row.holder === null ? (
              <span className="warn">{m.admin.noLeader}</span>
            ) : (
              <>
                <span className="mono">{row.holder}</span>{" "}
                {row.here && <span className="tag">{m.admin.here}</span>}
                {row.rivalLockId !== null && (
                  <span className="rival-lock warn">
                    {row.rivalLockId ? `COORDINATOR_LOCK_ID=${row.rivalLockId}` : m.admin.rivalWithoutLock}
                  </span>
                )}
              </>
            ),
        },
        { key: "since", title: columns.since, cell: (row) => <Ago at={row.since} /> },
        { key: "epoch", title: columns.epoch, cell: (row) => row.epoch ?? "–" },
        {
          key: "tick",
          title: columns.tick,
          cell: (row) => (row.here || row.lastTickAt ? <Ago at={row.lastTickAt} /> : m.admin.elsewhere),
        },
        {
          key: "error",
          title: columns.error,
          cell: (row) => <LastError row={row} />,
        },
      ]}
    />
  );
}

function LastError({ row }: { row: LeaderRow }) {
  const m = useMessages();
  const away = row.away.map(([engine, why]) => m.admin.away(engine, why));
  const said = [...away, ...(row.lastError ? [row.lastError] : [])];
  return said.length === 0 ? <>{m.admin.noError}</> : <span className="warn">{said.join(" · ")}</span>;
}

function nameWords(m: Messages, name: string): string {
  return (m.admin.coordinatorNames as Record<string, string>)[name] ?? name;
}
