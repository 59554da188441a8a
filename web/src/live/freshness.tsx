/**
 * Who is connected and when a workspace will sleep are not columns: they change without a new version. An event tells
 * of them, but only as a hint that may be lost, and a connection whose proxy died ends without a word. So they are
 * looked at again when somebody looks (the tab is returned to) and when a promised moment has come. Nothing is asked
 * on a beat.
 */
import { useEffect } from "react";
import { call } from "../api/client";
import type { Workspace } from "../api/types";
import { serverNow } from "../words/clock";
import { useLive, useLiveStore } from "./hooks";

const SELDOM_MS = 60_000;
const GRACE_MS = 1_500;
const NEAR_MS = 5_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** When the earliest promise about a running workspace is due, in milliseconds from now; null without any. */
export function nextDue(workspaces: Iterable<Workspace>, nowMs: number): number | null {
  let earliest: number | null = null;
  for (const { observed_status, activity } of workspaces) {
    if (observed_status !== "RUNNING" || !activity.next) continue;
    const due = Date.parse(activity.next.at) - nowMs;
    if (earliest === null || due < earliest) earliest = due;
  }
  return earliest;
}

export function Freshness() {
  const store = useLiveStore();
  const workspaces = useLive((live) => live.workspaces);

  useEffect(() => {
    const look = () => {
      if (document.visibilityState === "visible")
        void lookAgain([...store.get().workspaces.values()], store.observe);
    };
    document.addEventListener("visibilitychange", look);
    window.addEventListener("focus", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("focus", look);
    };
  }, [store]);

  useEffect(() => {
    const due = nextDue(workspaces.values(), serverNow());
    if (due === null) return;
    // A promise that has passed is renewed by the server as "now": once a minute is often enough to ask about it.
    const wait = due > NEAR_MS ? Math.min(due + GRACE_MS, LONGEST_TIMER_MS) : SELDOM_MS;
    const timer = setTimeout(() => void lookAgain([...workspaces.values()], store.observe), wait);
    return () => clearTimeout(timer);
  }, [workspaces, store]);

  return null;
}

async function lookAgain(workspaces: Workspace[], observe: (ws: Workspace) => void): Promise<void> {
  const running = workspaces.filter((ws) => ws.observed_status === "RUNNING");
  const answers = await Promise.allSettled(
    running.map((ws) => call<Workspace>("GET", `/workspaces/${ws.id}`)),
  );
  for (const answer of answers) if (answer.status === "fulfilled") observe(answer.value);
}
