/** My workspaces. Everything on it lives from the stream; the page itself asks for limits and savings only. */
import { Fragment, lazy, Suspense, useRef, useState } from "react";
import type { Status, Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { useLive } from "../live/hooks";
import { Remembered } from "../remembered";
import { useStore } from "../store";
import { Choice } from "../ui/fields";
import { Icon } from "../ui/icons";
import { SavingsLine } from "../ui/savings";
import { Loading } from "../ui/states";
import { StatusMark, type Family } from "../ui/status";
import { WorkspaceCard } from "../ui/card";
import { useTitle } from "../ui/title";
import { CreateDialog } from "../ui/create";
import { WorkspaceRow } from "../ui/row";
import { focusedItem, moveFocus, useKeys } from "./workspaces-keys";
import { grouped, grouping, TagFilter, tagsOf } from "./workspaces-groups";
import { useOrdered, useSelection } from "./workspaces-order";
import "./workspaces.css";

const KeysHelp = lazy(() => import("./workspaces-help"));
const SelectionBar = lazy(() => import("./workspaces-selection"));

type Filter = "all" | "running" | "asleep" | "archived" | "trouble";

const SHOWN: Record<Filter, readonly Status[] | null> = {
  all: null,
  running: ["running", "starting", "provisioning", "restoring"],
  asleep: ["standby", "stopping"],
  archived: ["archived", "archiving", "new"],
  trouble: ["error"],
};

const view = new Remembered("codehub.view", ["cards", "rows"]);

export function WorkspaceList() {
  const m = useMessages();
  useTitle(m.list.title);
  const count = useLive((live) => live.workspaces.size);
  const known = useLive((live) => live.known);
  const awaited = useLive((live) => live.awaited.size);
  const [dialog, setDialog] = useState<"create" | "keys" | null>(null);
  const close = () => setDialog(null);
  const create = () => setDialog("create");
  return (
    <>
      <div className="page__head">
        <h1>{m.list.title}</h1>
        {count > 0 && (
          <button type="button" className="button button--primary" onClick={create}>
            <Icon name="plus" />
            {m.list.create}
          </button>
        )}
      </div>
      <SavingsLine />
      {!known ? (
        <Loading />
      ) : count === 0 && awaited === 0 ? (
        <FirstWorkspace onCreate={create} />
      ) : (
        <Listed onCreate={create} onHelp={() => setDialog("keys")} />
      )}
      {dialog === "create" && <CreateDialog onClose={close} />}
      <Suspense>{dialog === "keys" && <KeysHelp onClose={close} />}</Suspense>
    </>
  );
}

/** The list with what narrows it down, and what can be done with several at once. */
function Listed({ onCreate, onHelp }: { onCreate: () => void; onHelp: () => void }) {
  const m = useMessages();
  const awaited = useLive((live) => live.awaited);
  const [query, setQuery] = useState("");
  const [filter, setFilter] = useState<Filter>("all");
  const [tag, setTag] = useState<string | null>(null);
  const search = useRef<HTMLInputElement>(null);
  const shape = useStore(view);
  const by = useStore(grouping);
  const [all, holding] = useOrdered();
  const tags = tagsOf(all);
  const only = tag !== null && tags.includes(tag) ? tag : null;
  const shown = all.filter((ws) => matches(ws, query, filter) && (only === null || ws.tags.includes(only)));
  const groups = grouped(m, shown, by);
  // In the order they stand on the page: with Shift everything between two is selected.
  const selection = useSelection([...new Set(groups.flatMap((group) => group.items))]);

  useKeys((key) => {
    const item = focusedItem();
    if (key === "/") search.current?.focus();
    else if (key === "n") onCreate();
    else if (key === "?") onHelp();
    else if (key === "j" || key === "k") moveFocus(key === "j" ? 1 : -1);
    else if (key === "o") item?.querySelector<HTMLElement>("a[target=_blank]")?.click();
    else item?.querySelector<HTMLElement>("input[type=checkbox]")?.click();
  });
  return (
    <>
      <div className="tools" role="search">
        <label className="search">
          <span className="sr-only">{m.list.search}</span>
          <Icon name="search" />
          <input
            ref={search}
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
        <Choice
          label={m.list.view}
          value={shape}
          onChange={(chosen) => (selection.clear(), view.choose(chosen))}
          options={[
            ["cards", m.list.views.cards],
            ["rows", m.list.views.rows],
          ]}
        />
        {all.length > 1 && (
          <Choice
            label={m.list.group}
            value={by}
            onChange={grouping.choose}
            options={GROUPINGS.map((each) => [each, m.list.groups[each]] as const)}
          />
        )}
        <button type="button" className="button button--small button--quiet tools__keys" onClick={onHelp}>
          {m.list.keys}
        </button>
        <p className="tools__count" role="status">
          {m.list.count(shown.length)}
        </p>
      </div>
      <TagFilter tags={tags} chosen={only} onChoose={setTag} />
      {shown.length === 0 && awaited.size === 0 ? (
        <div className="failed">
          <p>{m.list.noMatch}</p>
          <button
            type="button"
            className="button"
            onClick={() => (setQuery(""), setFilter("all"), setTag(null))}
          >
            {m.list.clear}
          </button>
        </div>
      ) : shape === "rows" ? (
        <div className="rows">
          <label className="rows__all">
            <input
              type="checkbox"
              checked={selection.isAll}
              onChange={(event) => (event.target.checked ? selection.all() : selection.clear())}
            />
            {m.list.chooseAll}
          </label>
          <div {...holding}>
            {groups.map((group) => (
              <Fragment key={group.key}>
                {group.title && <h2 className="group group--rows">{group.title}</h2>}
                <ul>
                  {group.items.map((ws) => (
                    <li key={ws.id}>
                      <WorkspaceRow
                        id={ws.id}
                        chosen={selection.ids.has(ws.id)}
                        onChoose={selection.choose}
                      />
                    </li>
                  ))}
                </ul>
              </Fragment>
            ))}
          </div>
        </div>
      ) : (
        <div {...holding}>
          {groups.map((group, index) => (
            <Fragment key={group.key}>
              {group.title && <h2 className="group">{group.title}</h2>}
              <ul className="cards">
                {group.items.map((ws) => (
                  <li key={ws.id}>
                    <WorkspaceCard id={ws.id} />
                  </li>
                ))}
                {index === groups.length - 1 &&
                  [...awaited].map((id) => <li key={id} className="card card--awaited" aria-hidden="true" />)}
              </ul>
            </Fragment>
          ))}
        </div>
      )}
      <Suspense>
        {selection.chosen.length > 0 && <SelectionBar chosen={selection.chosen} onClear={selection.clear} />}
      </Suspense>
    </>
  );
}

const GROUPINGS = ["none", "tag", "state"] as const;
const FILTERS: readonly Filter[] = ["all", "running", "asleep", "archived", "trouble"];

function matches(ws: Workspace, query: string, filter: Filter): boolean {
  const statuses = SHOWN[filter];
  if (statuses && !statuses.includes(ws.status)) return false;
  const words = query.trim().toLocaleLowerCase();
  return (
    words === "" ||
    `${ws.name} ${ws.description ?? ""} ${ws.tags.join(" ")}`.toLocaleLowerCase().includes(words)
  );
}

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
