/**
 * What component tests stand on: a component in the real providers and the real live store. Only the browser's edges are
 * replaced: `EventSource` by one a test speaks through, `fetch` by answers a test writes down.
 */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, cleanup, configure, render } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { afterEach, beforeEach, vi } from "vitest";
import type { User, Workspace } from "./api/types";
import { LiveProvider } from "./live/hooks";
import { SessionContext } from "./session";

// A machine may stand still for seconds; who waits for something waits long enough.
configure({ asyncUtilTimeout: 20_000 });

export const ANN: User = {
  id: "0191f3a2-0000-7000-8000-0000000000aa",
  username: "ann",
  role: "user",
  created_at: "2026-01-01T00:00:00Z",
  disabled_at: null,
};

class SpokenSource extends EventTarget {
  static newest: SpokenSource;

  constructor() {
    super();
    SpokenSource.newest = this;
  }

  close(): void {}
}

/** An event of the live stream, as the server would send it. */
export function say(name: string, data: unknown, lastEventId = ""): void {
  const event = new MessageEvent(name, { data: JSON.stringify(data), lastEventId });
  act(() => void SpokenSource.newest.dispatchEvent(event));
}

export function sayWorkspaces(...workspaces: Workspace[]): void {
  say("snapshot", { ids: workspaces.map((ws) => ws.id) });
  for (const ws of workspaces) say("state_changed", ws, `${ws.id}:${ws.version}`);
}

interface Request {
  method: string;
  path: string;
  body: unknown;
}

/** Answers for `fetch`, by "METHOD /path"; what nobody wrote down is 404. Returns the list of requests made. */
export function answer(answers: Record<string, [status: number, body: unknown]>): Request[] {
  const requests: Request[] = [];
  vi.stubGlobal("fetch", async (path: string, init: RequestInit = {}) => {
    const method = init.method ?? "GET";
    requests.push({ method, path, body: init.body ? JSON.parse(init.body as string) : undefined });
    const [status, body] = answers[`${method} ${path.replace("/api/v1", "")}`] ?? [
      404,
      { code: "not_found", detail: `nobody answers ${path}` },
    ];
    return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
  });
  return requests;
}

export function show(component: ReactNode, user: User = ANN) {
  vi.stubGlobal("EventSource", SpokenSource);
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const page = render(
    <QueryClientProvider client={client}>
      <SessionContext.Provider value={user}>
        <LiveProvider url="/api/v1/events">{component}</LiveProvider>
      </SessionContext.Provider>
    </QueryClientProvider>,
  );
  return { ...page, person: userEvent.setup() };
}

// A machine that does much else may stand still for seconds.
configure({ asyncUtilTimeout: 20_000 });

beforeEach(() => void answer({}));

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});
