/** What happened to a workspace: as people tell it, or every step. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { archivesQuery, historyQuery } from "../api/queries";
import type { HistoryEntry, Workspace } from "../api/types";
import { useLanguage, useMessages } from "../i18n";
import { Empty, Failed, Loading } from "../ui/states";
import { Ago } from "../ui/time";
import { chapterLine, chapters } from "../words/chapters";
import { historyLine, isWorthShowing, type Line } from "../words/history";
import "./workspace-timeline.css";

export function Timeline({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const client = useQueryClient();
  const query = historyQuery(workspace.id);
  const history = useInfiniteQuery(query);
  const { id, version } = workspace;
  useEffect(() => {
    void client.invalidateQueries({ queryKey: historyQuery(id).queryKey });
  }, [client, id, version]);
  const [everyStep, setEveryStep] = useState(false);
  const entries = history.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <section className="panel" aria-labelledby="timeline">
      <div className="timeline__head">
        <h2 id="timeline">{m.detail.timeline}</h2>
        <label className="check timeline__switch">
          <input
            type="checkbox"
            checked={everyStep}
            onChange={(event) => setEveryStep(event.target.checked)}
          />
          {m.story.everyStep}
        </label>
      </div>
      {history.isError ? (
        <Failed error={history.error} retry={() => void history.refetch()} />
      ) : history.isPending ? (
        <Loading />
      ) : entries.length === 0 ? (
        <Empty>{m.detail.timelineEmpty}</Empty>
      ) : (
        <ol className="timeline">
          {everyStep ? <Steps entries={entries} /> : <Chapters workspace={workspace} entries={entries} />}
        </ol>
      )}
      {history.hasNextPage && (
        <button
          type="button"
          className="button button--small"
          disabled={history.isFetching}
          onClick={() => void history.fetchNextPage()}
        >
          {m.detail.older}
        </button>
      )}
    </section>
  );
}

function Chapters({ workspace, entries }: { workspace: Workspace; entries: HistoryEntry[] }) {
  const m = useMessages();
  const language = useLanguage();
  // Whether or not sizes are known, the rest can be told.
  const { data: archives = [] } = useQuery(archivesQuery(workspace.id));
  const sizes = new Map(archives.map((each) => [each.key, each.bytes]));
  return chapters(entries).map((told) => (
    <Told key={told.first.seq} at={told.first.at} line={chapterLine(m, language, told, sizes)} />
  ));
}

function Steps({ entries }: { entries: HistoryEntry[] }) {
  const m = useMessages();
  return entries
    .filter(isWorthShowing)
    .map((entry) => <Told key={entry.seq} at={entry.at} line={historyLine(m, entry)} />);
}

function Told({ at, line }: { at: string; line: Line }) {
  const m = useMessages();
  return (
    <li className={`timeline__item is-${line.tone}`}>
      <span className="timeline__what">
        <span className="timeline__text">{line.text}</span>
        {line.detail && <q className="timeline__detail">{line.detail}</q>}
      </span>
      <span className="timeline__meta">
        <Ago at={at} />
        {line.actor && <span> · {m.history.by(line.actor)}</span>}
      </span>
    </li>
  );
}
