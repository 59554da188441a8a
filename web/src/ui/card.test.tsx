import { screen, waitFor, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import type { Workspace } from "../api/types";
import { WorkspaceList } from "../pages/workspaces";
import { ANN, answer, say, sayWorkspaces, show } from "../test-page";
import { aWorkspace } from "../test-support";

/** How often each workspace's rail was rendered: a card renders it once each time. */
const renders = vi.hoisted(() => new Map<string, number>());

vi.mock("./status", async (original) => {
  const status = await original<typeof import("./status")>();
  const LevelRail: typeof status.LevelRail = (props) => {
    renders.set(props.workspace.id, (renders.get(props.workspace.id) ?? 0) + 1);
    return status.LevelRail(props);
  };
  return { ...status, LevelRail };
});

const RUNNING = { desired_state: "RUNNING", observed_status: "RUNNING", status: "running" } as const;
const card = (name: string) => screen.getByRole("article", { name });

test("a card renders for its own workspace only", () => {
  const [a, b, c] = ["a", "b", "c"].map((id) => aWorkspace({ id, name: id, ...RUNNING })) as Workspace[];
  show(<WorkspaceList />);
  sayWorkspaces(a!, b!, c!);
  renders.clear();
  say("state_changed", { ...a, version: 2, memo: "changed" }, "a:2");
  say("activity", {
    id: "a",
    activity: { connections: 3, last_seen_at: null, kind: "http", queue: null, awake: null, next: null },
  });
  expect([...renders]).toEqual([["a", 2]]);
  expect(card("a").textContent).toContain("3 connections");
});

test("nor does a card render while another one is asked for something", async () => {
  const [a, b] = ["a", "b"].map((id) => aWorkspace({ id, name: id, ...RUNNING })) as Workspace[];
  answer({ "POST /workspaces/a/stop": [202, { ...a, version: 2, desired_state: "STANDBY" }] });
  const { person } = show(<WorkspaceList />);
  sayWorkspaces(a!, b!);
  renders.clear();
  await person.click(within(card("a")).getByRole("button", { name: "Stop" }));
  await waitFor(() => expect(card("a").textContent).toContain("Stop requested"));
  expect(renders.get("a")).toBeGreaterThan(0);
  expect(renders.has("b")).toBe(false);
});

test("time alone renders no card, only the words that change with it", async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  try {
    const next = { to: "STANDBY", at: new Date(Date.now() + 90_500).toISOString(), why: "idle" } as const;
    show(<WorkspaceList />);
    sayWorkspaces(
      aWorkspace({
        id: "a",
        name: "a",
        ...RUNNING,
        activity: { connections: 0, last_seen_at: null, kind: null, queue: null, awake: null, next },
      }),
    );
    expect(card("a").textContent).toContain("Sleeps in 1 min");
    renders.clear();
    await vi.advanceTimersByTimeAsync(35_000);
    await waitFor(() => expect(card("a").textContent).toMatch(/Sleeps in 5\d s/));
    expect(renders.size).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("what is about to sleep can be kept awake with one click", async () => {
  const asleepIn = (seconds: number) => {
    const next = {
      to: "STANDBY",
      at: new Date(Date.now() + seconds * 1000).toISOString(),
      why: "idle",
    } as const;
    const activity = { connections: 0, last_seen_at: null, kind: null, queue: null, awake: null, next };
    return { standby_ttl_seconds: 300, activity };
  };
  const soon = aWorkspace({ id: "a", name: "soon", ...RUNNING, ...asleepIn(120) });
  const later = aWorkspace({ id: "b", name: "later", ...RUNNING, ...asleepIn(200) });
  const requests = answer({
    "POST /workspaces/a/keep-awake": [202, { ...soon, version: 2, ...asleepIn(3600) }],
  });
  const { person } = show(<WorkspaceList />);
  sayWorkspaces(soon, later);
  const name = "Keep awake for 1 hour";
  expect(within(card("later")).queryByRole("button", { name })).toBeNull();
  await person.click(within(card("soon")).getByRole("button", { name }));
  await waitFor(() => expect(within(card("soon")).queryByRole("button", { name })).toBeNull());
  expect(requests.find(({ method }) => method === "POST")?.body).toEqual({ hours: 1 });
});

test("what is wanted, what is asked for and what is are told apart", async () => {
  const ws = aWorkspace({ name: "atlas" });
  let reply: (answer: Response) => void = () => undefined;
  const { person } = show(<WorkspaceList />);
  vi.stubGlobal("fetch", () => new Promise<Response>((resolve) => (reply = resolve)));
  sayWorkspaces(ws);
  await person.click(within(card("atlas")).getByRole("button", { name: "Start" }));
  expect(card("atlas").textContent).toContain("Asking to start…");
  const wanted = { ...ws, version: 2, desired_state: "RUNNING" };
  reply(
    new Response(JSON.stringify(wanted), { status: 202, headers: { "Content-Type": "application/json" } }),
  );
  await waitFor(() => expect(card("atlas").textContent).toContain("Start requested"));
  expect(within(card("atlas")).getByRole("img").getAttribute("aria-label")).toBe(
    "Now: Asleep. Wanted: Running.",
  );
});

test("the menu of a card renames in place", async () => {
  const ws = aWorkspace({ name: "atlas" });
  const requests = answer({ [`PATCH /workspaces/${ws.id}`]: [200, { ...ws, version: 2, name: "globe" }] });
  const { person } = show(<WorkspaceList />);
  sayWorkspaces(ws);
  await person.click(screen.getByRole("button", { name: "More actions for atlas" }));
  await person.click(screen.getByRole("menuitem", { name: "Rename" }));
  const input = await screen.findByRole("textbox", { name: "Rename atlas" });
  expect(document.activeElement).toBe(input);
  await person.clear(input);
  await person.type(input, "globe{Enter}");
  await waitFor(() => expect(card("globe")).toBeTruthy());
  expect(requests.at(-1)?.body).toEqual({ name: "globe" });
});

test("only an administrator is offered to recover", () => {
  const broken = aWorkspace({ name: "granite", status: "error", health_status: "ERROR" });
  const first = show(<WorkspaceList />);
  sayWorkspaces(broken);
  expect(screen.queryByRole("button", { name: "Recover" })).toBeNull();
  first.unmount();
  show(<WorkspaceList />, { ...ANN, role: "admin" });
  sayWorkspaces(broken);
  expect(screen.getByRole("button", { name: "Recover" })).toBeTruthy();
});

test("editors are in the menu of one that runs, the terminal command in every one's", async () => {
  const assign = vi.fn();
  vi.stubGlobal("location", { ...window.location, assign });
  answer({ "GET /workspaces/a/ports": [200, { ports: [], truncated: false, home: "/home/jovyan" }] });
  const { person } = show(<WorkspaceList />);
  sayWorkspaces(aWorkspace({ id: "a", name: "a", ...RUNNING }), aWorkspace({ id: "b", name: "b" }));
  await person.click(within(card("b")).getByRole("button", { name: "More actions for b" }));
  expect(screen.getByRole("menuitem", { name: "Terminal command" })).toBeTruthy();
  expect(screen.queryByRole("menuitem", { name: "Cursor" })).toBeNull();
  await person.keyboard("{Escape}");
  await person.click(within(card("a")).getByRole("button", { name: "More actions for a" }));
  expect(screen.getByRole("menuitem", { name: "JetBrains" })).toBeTruthy();
  await person.click(screen.getByRole("menuitem", { name: "VS Code" }));
  await waitFor(() =>
    expect(assign).toHaveBeenCalledWith("vscode://vscode-remote/ssh-remote+a.codehub/home/jovyan"),
  );
});
