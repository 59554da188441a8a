/**
 * Everyone's workspaces. Up to a few hundred the page follows them all live; beyond that a stream of everything would
 * be a burden on browser and server alike, so it asks page by page, follows what is on the page, and says so.
 */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { everyonesQuery, overviewQuery, usersQuery } from "../../api/queries";
import type { Overview, Status, User, Workspace } from "../../api/types";
import { useWorkspaceActions } from "../../actions/workspace-actions";
import { useMessages } from "../../i18n";
import { LiveProvider, useLive } from "../../live/hooks";
import { Link, navigate } from "../../router";
import { Next, useRareActions } from "../../ui/card";
import { DeleteDialog } from "../../ui/delete";
import { SelectField, TextField } from "../../ui/fields";
import { Icon } from "../../ui/icons";
import { Menu, type MenuItem } from "../../ui/menu";
import { Empty, Failed, Loading } from "../../ui/states";
import { StatusBadge } from "../../ui/status";
import { Table } from "../../ui/table";

const MOST_TO_FOLLOW = 500;
/** The server follows this many that are named one by one. */
const MOST_TO_NAME = 200;

interface Filters {
  owner: string;
  status: string;
  q: string;
}

export function EveryoneSection() {
  const overview = useQuery(overviewQuery);
  const users = useQuery(usersQuery);
  const [filters, setFilters] = useState<Filters>({ owner: "all", status: "", q: "" });
  if (overview.isError) return <Failed error={overview.error} retry={() => void overview.refetch()} />;
  if (!overview.data || !users.data) return users.isError ? <Failed error={users.error} /> : <Loading />;
  const view = { filters, users: users.data };
  return (
    <div className="stack">
      <FilterBar {...view} onChange={setFilters} />
      {total(overview.data) <= MOST_TO_FOLLOW ? (
        <LiveProvider url="/api/v1/events?owner=all">
          <Followed {...view} />
        </LiveProvider>
      ) : (
        <Paged {...view} />
      )}
    </div>
  );
}

function total({ counts }: Overview): number {
  return Object.values(counts).reduce((sum, n) => sum + n, 0);
}

const STATUSES: readonly Status[] = [
  "running",
  "standby",
  "archived",
  "new",
  "error",
  "starting",
  "stopping",
  "archiving",
  "restoring",
  "provisioning",
  "deleting",
];

function FilterBar({
  filters,
  users,
  onChange,
}: {
  filters: Filters;
  users: User[];
  onChange: (filters: Filters) => void;
}) {
  const m = useMessages();
  return (
    <div className="filters" role="search">
      <TextField
        label={m.list.search}
        type="search"
        value={filters.q}
        onChange={(q) => onChange({ ...filters, q })}
      />
      <SelectField
        label={m.admin.owner}
        value={filters.owner}
        onChange={(owner) => onChange({ ...filters, owner })}
      >
        <option value="all">{m.admin.allOwners}</option>
        {users.map((user) => (
          <option key={user.id} value={user.id}>
            {user.username}
          </option>
        ))}
      </SelectField>
      <SelectField
        label={m.admin.status}
        value={filters.status}
        onChange={(status) => onChange({ ...filters, status })}
      >
        <option value="">{m.admin.anyStatus}</option>
        {STATUSES.map((status) => (
          <option key={status} value={status}>
            {m.status[status]}
          </option>
        ))}
      </SelectField>
    </div>
  );
}

function Followed({ filters, users }: { filters: Filters; users: User[] }) {
  const workspaces = useLive((live) => live.workspaces);
  const known = useLive((live) => live.known);
  if (!known) return <Loading />;
  const words = filters.q.trim().toLocaleLowerCase();
  const rows = [...workspaces.values()].filter(
    (ws) =>
      (filters.owner === "all" || ws.owner_id === filters.owner) &&
      (filters.status === "" || ws.status === filters.status) &&
      ws.name.toLocaleLowerCase().includes(words),
  );
  return <Everyone rows={rows} users={users} />;
}

function Paged({ filters, users }: { filters: Filters; users: User[] }) {
  const m = useMessages();
  const list = useInfiniteQuery(everyonesQuery(filters));
  if (list.isError) return <Failed error={list.error} retry={() => void list.refetch()} />;
  const rows = list.data?.pages.flatMap((page) => page.items);
  return (
    <>
      <div className="filters__note">
        <p className="panel__lead">{m.admin.tooMany}</p>
        <button
          type="button"
          className="button button--small"
          disabled={list.isFetching}
          onClick={() => void list.refetch()}
        >
          {m.admin.refresh}
        </button>
      </div>
      {rows?.length === 0 ? (
        <Empty>{m.list.noMatch}</Empty>
      ) : rows ? (
        <LiveProvider url={`/api/v1/events?owner=all${named(rows)}`}>
          <Shown rows={rows} users={users} />
        </LiveProvider>
      ) : (
        <Loading />
      )}
      {list.hasNextPage && (
        <button
          type="button"
          className="button"
          disabled={list.isFetching}
          onClick={() => void list.fetchNextPage()}
        >
          {m.admin.loadMore}
        </button>
      )}
    </>
  );
}

function named(rows: Workspace[]): string {
  return rows
    .slice(0, MOST_TO_NAME)
    .map((ws) => `&id=${ws.id}`)
    .join("");
}

/** What the page was given, each as it is now. */
function Shown({ rows, users }: { rows: Workspace[]; users: User[] }) {
  const gone = useLive((live) => live.gone);
  const workspaces = useLive((live) => live.workspaces);
  const now = rows.filter((ws) => !gone.has(ws.id)).map((ws) => workspaces.get(ws.id) ?? ws);
  return <Everyone rows={now} users={users} />;
}

function Everyone({ rows, users }: { rows: Workspace[]; users: User[] }) {
  const m = useMessages();
  const { columns } = m.admin;
  const names = new Map(users.map((user) => [user.id, user.username]));
  if (rows.length === 0) return <Empty>{m.list.noMatch}</Empty>;
  return (
    <Table
      label={m.admin.workspaces}
      rows={rows}
      rowKey={(ws) => ws.id}
      columns={[
        {
          key: "name",
          title: columns.name,
          bare: true,
          cell: (ws) => <Link href={`/workspaces/${ws.id}`}>{ws.name}</Link>,
        },
        {
          key: "owner",
          title: columns.owner,
          cell: (ws) => names.get(ws.owner_id) ?? ws.owner_id,
        },
        { key: "status", title: columns.status, cell: (ws) => <StatusBadge workspace={ws} /> },
        { key: "next", title: columns.next, cell: (ws) => <Next workspace={ws} /> },
        { key: "actions", title: columns.actions, bare: true, cell: (ws) => <RowMenu workspace={ws} /> },
      ]}
    />
  );
}

function RowMenu({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const quiet = useRareActions(workspace);
  const [removing, setRemoving] = useState(false);
  if (workspace.deleted_at !== null) return null;
  const wantsRunning = workspace.desired_state === "RUNNING";
  const items: (MenuItem | "line")[] = [
    { label: m.actions.details, onSelect: () => navigate(`/workspaces/${workspace.id}`) },
    workspace.status === "error"
      ? { label: m.actions.recover, onSelect: () => void actions.recover(workspace) }
      : {
          label: wantsRunning ? m.actions.stop : m.actions.start,
          onSelect: () => void (wantsRunning ? actions.stop(workspace) : actions.start(workspace)),
        },
    ...quiet,
    "line",
    { label: m.actions.delete, onSelect: () => setRemoving(true), tone: "danger" },
  ];
  return (
    <>
      <Menu label={m.actions.moreFor(workspace.name)} button={<Icon name="more" />} items={items} />
      {removing && <DeleteDialog workspace={workspace} onClose={() => setRemoving(false)} />}
    </>
  );
}
