/** The output of a running workspace, following. Scrolling up pauses; scrolling down follows again. */
import { useEffect, useRef, useState } from "react";
import { useQuery } from "@tanstack/react-query";
import { call } from "../api/client";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { Connection, openWhileLookedAt, type Phase } from "../live/connection";
import { appendLog, logText, stripControl } from "../live/log";
import "./workspace-logs.css";

export function Logs({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const running = workspace.observed_status === "RUNNING";
  return (
    <section className="panel" aria-labelledby="logs">
      {running ? (
        <Following id={workspace.id} />
      ) : (
        <Recent id={workspace.id} version={workspace.version} title={m.detail.logs} />
      )}
    </section>
  );
}

/** What is left of the output of a workspace that does not run. */
function Recent({ id, version, title }: { id: string; version: number; title: string }) {
  const m = useMessages();
  const { data } = useQuery({
    queryKey: ["workspace", id, "logs", version],
    queryFn: () => call<string>("GET", `/workspaces/${id}/logs`),
    retry: false,
  });
  return (
    <>
      <h2 id="logs">{title}</h2>
      {data ? (
        <Output text={stripControl(data)} follow={false} />
      ) : (
        <p className="empty-line">{m.detail.logsNotRunning}</p>
      )}
    </>
  );
}

function Following({ id }: { id: string }) {
  const m = useMessages();
  const [text, setText] = useState("");
  const [phase, setPhase] = useState<Phase>("connecting");
  const [follow, setFollow] = useState(true);

  useEffect(() => {
    let fresh = true;
    const connection = new Connection({
      open: () => {
        fresh = true; // every connection tells the recent output again
        return new EventSource(`/api/v1/workspaces/${id}/logs?follow=true`);
      },
      names: ["log", "heartbeat"],
      onEvent: (name, data) => {
        if (name === "heartbeat") return;
        const again = fresh;
        fresh = false;
        setText((old) => appendLog(again ? "" : old, logText(data)));
      },
      onPhase: setPhase,
    });
    return openWhileLookedAt(connection);
  }, [id]);

  const state = phase === "lost" ? m.detail.logsLost : follow ? m.detail.logsFollowing : m.detail.logsPaused;
  return (
    <>
      <div className="panel__head">
        <h2 id="logs">{m.detail.logs}</h2>
        <span className={`follow ${phase === "lost" ? "is-lost" : follow ? "is-on" : ""}`}>{state}</span>
      </div>
      {text ? (
        <Output text={text} follow={follow} onFollow={setFollow} />
      ) : (
        <p className="empty-line">{m.detail.logsEmpty}</p>
      )}
    </>
  );
}

function Output({
  text,
  follow,
  onFollow,
}: {
  text: string;
  follow: boolean;
  onFollow?: (follow: boolean) => void;
}) {
  const m = useMessages();
  const ref = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const box = ref.current;
    if (box && follow) box.scrollTop = box.scrollHeight;
  }, [text, follow]);
  const onScroll = () => {
    const box = ref.current;
    if (box) onFollow?.(box.scrollHeight - box.scrollTop - box.clientHeight < 24);
  };
  return (
    <pre
      ref={ref}
      className="logs mono"
      role="log"
      aria-live="off"
      aria-label={m.detail.logs}
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard
      tabIndex={0}
      onScroll={onScroll}
    >
      {text}
    </pre>
  );
}
