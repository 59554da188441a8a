/** Detached processes of a workspace: what runs, what has ended, what they said. Looking wakes nothing. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client";
import type { Process, Processes as ProcessList, Workspace } from "../api/types";
import { shownName } from "../files/paths";
import { useMessages } from "../i18n";
import { useInsideMessages } from "../i18n/inside";
import { Ago } from "../ui/time";
import { isOpen } from "../words/editors";
import { insideError } from "../words/inside-errors";
import { outputOf } from "../words/process-output";

const ENDING_MS = 1000;

export function Processes({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const w = useInsideMessages();
  const [ending, setEnding] = useState<ReadonlySet<string>>(new Set());
  const open = isOpen(workspace);
  const path = `/workspaces/${workspace.id}/processes`;
  // Not polled, but while one is about to end: each look is a process in the workspace.
  const processes = useQuery({
    queryKey: ["workspace", workspace.id, "processes"],
    queryFn: () => call<ProcessList>("GET", path),
    enabled: open,
    retry: false,
    refetchInterval: (query) =>
      query.state.data?.items.some((each) => !each.ended_at && ending.has(each.id)) ? ENDING_MS : false,
  });
  const kill = useMutation({
    mutationFn: (id: string) => call<Process>("POST", `${path}/${id}/kill`, {}),
    onMutate: (id) => setEnding(new Set([...ending, id])),
    onSettled: () => processes.refetch(),
  });
  if (!open) return null;
  const error = processes.error ?? kill.error;
  const items = [...(processes.data?.items ?? [])].reverse();
  return (
    <div className="inside__part">
      <div className="panel__head">
        <h3 id="processes">{w.processes.title}</h3>
        <button
          type="button"
          className="button button--small"
          disabled={processes.isFetching}
          onClick={() => void processes.refetch()}
        >
          {w.inside.refresh}
        </button>
      </div>
      {error && <p role="alert">{insideError(m, w, error)}</p>}
      {processes.data && items.length === 0 && (
        <p className="inside__note">
          {w.processes.empty} <code className="mono">codehub exec --detach</code>
        </p>
      )}
      {items.length > 0 && (
        <ul className="processes" aria-labelledby="processes">
          {items.map((each) => (
            <Line
              key={each.id}
              path={path}
              process={each}
              isEnding={ending.has(each.id)}
              onKill={() => kill.mutate(each.id)}
            />
          ))}
        </ul>
      )}
    </div>
  );
}

interface LineProps {
  path: string;
  process: Process;
  isEnding: boolean;
  onKill: () => void;
}

function Line({ path, process, isEnding, onKill }: LineProps) {
  const w = useInsideMessages();
  const [shown, setShown] = useState(false);
  const runs = process.ended_at === null;
  const state = runs
    ? w.processes.running
    : process.timed_out
      ? w.processes.timedOut
      : w.processes.exited(process.exit_code ?? 0);
  return (
    <li>
      <span className="processes__line">
        <code className="mono processes__command">
          <bdi>{shownName(process.command)}</bdi>
        </code>
        <span className="tag">{isEnding && runs ? w.processes.ending : state}</span>
        <span className="inside__note">
          <Ago at={process.ended_at ?? process.started_at} />
        </span>
        <button
          type="button"
          className="button button--small"
          aria-expanded={shown}
          aria-label={w.processes.outputOf(shownName(process.command))}
          onClick={() => setShown(!shown)}
        >
          {w.processes.output}
        </button>
        {runs && (
          <button
            type="button"
            className="button button--small"
            disabled={isEnding}
            aria-label={w.processes.endOf(shownName(process.command))}
            onClick={onKill}
          >
            {w.processes.end}
          </button>
        )}
      </span>
      {shown && <Output path={`${path}/${process.id}/logs`} process={process} />}
    </li>
  );
}

function Output({ path, process }: { path: string; process: Process }) {
  const m = useMessages();
  const w = useInsideMessages();
  const output = useQuery({
    queryKey: ["process", path, process.output_bytes, process.ended_at],
    queryFn: async () => outputOf(await call<string>("GET", path)),
    retry: false,
    placeholderData: (before: string | undefined) => before,
  });
  if (output.error) return <p role="alert">{insideError(m, w, output.error)}</p>;
  if (output.data === undefined) return <p className="empty-line">{m.app.loading}</p>;
  if (output.data === "") return <p className="empty-line">{w.processes.silent}</p>;
  return (
    <>
      {process.lost_bytes > 0 && <p className="inside__note">{w.processes.beginningLost}</p>}
      <pre
        className="processes__output mono"
        role="log"
        aria-live="off"
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard
        tabIndex={0}
        aria-label={w.processes.outputOf(shownName(process.command))}
      >
        {output.data}
      </pre>
    </>
  );
}
