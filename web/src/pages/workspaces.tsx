/** My workspaces. Everything on it lives from the stream; the page itself asks for limits and savings only. */
import { useMemo, useState } from "react";
import type { Status, Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { useLive } from "../live/hooks";
import { Choice } from "../ui/fields";
import { Icon } from "../ui/icons";
import { SavingsLine } from "../ui/savings";
import { Loading } from "../ui/states";
import { StatusMark, type Family } from "../ui/status";
import { WorkspaceCard } from "../ui/card";
import { useTitle } from "../ui/title";
import { CreateDialog } from "../ui/create";
import "./workspaces.css";

type Filter = "all" | "running" | "asleep" | "archived" | "trouble";

const SHOWN: Record<Filter, readonly Status[] | null> = {
  all: null,
  running: ["running", "starting", "provisioning", "restoring"],
  asleep: ["standby", "stopping"],
  archived: ["archived", "archiving", "new"],
  trouble: ["error"],
};

export function WorkspaceList() {
  const m = useMessages();
  useTitle(m.list.title);
  const workspaces = useLive((live) => live.workspaces);
  const known = useLive((live) => live.known);
  const awaited = useLive((live) => live.awaited);
  const [creating, setCreating] = useState(false);
  const [query, setQuery] = useState("");
  const [filter, setFilter] = useState<Filter>("all");
  const all = useMemo(() => [...workspaces.values()].sort(byName), [workspaces]);
  const shown = all.filter((ws) => matches(ws, query, filter));

  const create = () => setCreating(true);
  return (
    <>
      <div className="page__head">
        <h1>{m.list.title}</h1>
        {all.length > 0 && (
          <button type="button" className="button button--primary" onClick={create}>
            <Icon name="plus" />
            {m.list.create}
          </button>
        )}
      </div>
      <SavingsLine />
      {!known ? (
        <Loading />
      ) : all.length === 0 && awaited.size === 0 ? (
        <FirstWorkspace onCreate={create} />
      ) : (
        <>
          <div className="tools" role="search">
            <label className="search">
              <span className="sr-only">{m.list.search}</span>
              <Icon name="search" />
              <input
                type="search"
                className="input"
                placeholder={m.list.search}
                value={query}
                onChange={(e) => setQuery(e.target.value)}
              />
            </label>
            <Choice
              label={m.list.filter}
              value={filter}
              onChange={setFilter}
              options={FILTERS.map((f) => [f, m.list.filters[f]] as const)}
            />
            <p className="tools__count" role="status">
              {m.list.count(shown.length)}
            </p>
          </div>
          {shown.length === 0 && awaited.size === 0 ? (
            <div className="failed">
              <p>{m.list.noMatch}</p>
              <button type="button" className="button" onClick={() => (setQuery(""), setFilter("all"))}>
                {m.list.clear}
              </button>
            </div>
          ) : (
            <ul className="cards">
              {shown.map((ws) => (
                <li key={ws.id}>
                  <WorkspaceCard id={ws.id} />
                </li>
              ))}
              {[...awaited].map((id) => (
                <li key={id} className="card card--awaited" aria-hidden="true" />
              ))}
            </ul>
          )}
        </>
      )}
      {creating && <CreateDialog onClose={() => setCreating(false)} />}
    </>
  );
}

const FILTERS: readonly Filter[] = ["all", "running", "asleep", "archived", "trouble"];

function matches(ws: Workspace, query: string, filter: Filter): boolean {
  const statuses = SHOWN[filter];
  if (statuses && !statuses.includes(ws.status)) return false;
  const words = query.trim().toLocaleLowerCase();
  return words === "" || `${ws.name} ${ws.description ?? ""}`.toLocaleLowerCase().includes(words);
}

// By name and not by activity: a card that jumps away under the pointer is a wrong click.
const byName = (a: Workspace, b: Workspace) => a.name.localeCompare(b.name) || a.id.localeCompare(b.id);

const STEPS: readonly Family[] = ["running", "asleep", "archived"];

function FirstWorkspace({ onCreate }: { onCreate: () => void }) {
  const m = useMessages();
  return (
    <section className="first">
      <div className="first__lead">
        <h2>{m.list.emptyTitle}</h2>
        <p>{m.list.emptyLead}</p>
        <button type="button" className="button button--primary" onClick={onCreate}>
          <Icon name="plus" />
          {m.list.create}
        </button>
      </div>
      <ol className="first__steps">
        {m.list.emptySteps.map(([title, text], i) => (
          <li key={title}>
            <StatusMark family={STEPS[i] ?? "new"} />
            <strong>{title}</strong>
            <span>{text}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
