import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { historyQuery } from "../api/queries";
import type { HistoryEntry, Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { Empty, Failed, Loading } from "../ui/states";
import { Ago } from "../ui/time";
import { historyLine, isWorthShowing } from "../words/history";
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
  const entries = history.data?.pages.flatMap((page) => page.items).filter(isWorthShowing) ?? [];
  return (
    <section className="panel" aria-labelledby="timeline">
      <h2 id="timeline">{m.detail.timeline}</h2>
      {history.isError ? (
        <Failed error={history.error} retry={() => void history.refetch()} />
      ) : history.isPending ? (
        <Loading />
      ) : entries.length === 0 ? (
        <Empty>{m.detail.timelineEmpty}</Empty>
      ) : (
        <ol className="timeline">
          {entries.map((entry) => (
            <Entry key={entry.seq} entry={entry} />
          ))}
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

function Entry({ entry }: { entry: HistoryEntry }) {
  const m = useMessages();
  const line = historyLine(m, entry);
  return (
    <li className={`timeline__item is-${line.tone}`}>
      <span className="timeline__what">
        <span className="timeline__text">{line.text}</span>
        {line.detail && <q className="timeline__detail">{line.detail}</q>}
      </span>
      <span className="timeline__meta">
        <Ago at={entry.at} />
        {line.actor && <span> · {m.history.by(line.actor)}</span>}
      </span>
    </li>
  );
}
