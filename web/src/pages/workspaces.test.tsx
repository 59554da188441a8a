import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { beforeEach, expect, test } from "vitest";
import type { Workspace } from "../api/types";
import { answer, say, sayWorkspaces, show } from "../test-page";
import { aWorkspace } from "../test-support";
import { WorkspaceList } from "./workspaces";
// Loaded when they are needed; here beforehand, so that no test waits for a file.
import "./workspaces-help";
import { keysHeard } from "./workspaces-keys";
import "./workspaces-selection";

const RUNNING = { desired_state: "RUNNING", observed_status: "RUNNING", status: "running" } as const;
const names = () => screen.getAllByRole("article").map((item) => item.getAttribute("aria-label"));
const some = (...chosen: string[]): Workspace[] =>
  chosen.map((name, i) => aWorkspace({ id: name, name, last_access_at: `2026-01-0${9 - i}T00:00:00Z` }));
const inRows = (person: ReturnType<typeof show>["person"]) => person.click(screen.getByLabelText("Rows"));

beforeEach(() => {
  keysHeard.choose("on");
  localStorage.clear();
});

test("what starts goes to the top, but not while the pointer is in the list", async () => {
  const { person } = show(<WorkspaceList />);
  const [a, b] = some("a", "b");
  sayWorkspaces(a!, b!);
  expect(names()).toEqual(["a", "b"]);
  await person.hover(screen.getByRole("article", { name: "b" }));
  say("state_changed", { ...b, ...RUNNING, version: 2 }, "b:2");
  expect(names()).toEqual(["a", "b"]);
  await person.hover(screen.getByRole("heading", { name: "Workspaces" }));
  expect(names()).toEqual(["b", "a"]);
});

test("rows are remembered and have one button each", async () => {
  const first = show(<WorkspaceList />);
  sayWorkspaces(...some("a", "b"));
  await inRows(first.person);
  const row = screen.getByRole("article", { name: "a" });
  expect(within(row).getByRole("link", { name: /^Open a/ })).toBeTruthy();
  expect(within(row).queryByRole("button", { name: "Start" })).toBeNull();
  expect(localStorage.getItem("codehub.view")).toBe("rows");
  await first.person.click(within(row).getByRole("button", { name: "More actions for a" }));
  expect(screen.getByRole("menuitem", { name: "Start" })).toBeTruthy();
  await first.person.keyboard("{Escape}");
  await first.person.click(screen.getByLabelText("Cards"));
});

test("with shift everything between is selected, and one question is asked for all", async () => {
  const { person } = show(<WorkspaceList />);
  const [a, b, c, d] = some("a", "b", "c", "d").map((ws) => ({ ...ws, ...RUNNING })) as Workspace[];
  const asleep = aWorkspace({ id: "e", name: "e" });
  const stopped = (ws: Workspace) => ({ ...ws, version: 2, desired_state: "STANDBY" });
  const requests = answer({
    "POST /workspaces/a/stop": [202, stopped(a!)],
    "POST /workspaces/b/stop": [409, { code: "conflict", detail: "Being deleted." }],
    "POST /workspaces/c/stop": [202, stopped(c!)],
  });
  sayWorkspaces(a!, b!, c!, d!, asleep);
  await inRows(person);
  const box = (name: string) => screen.getByRole("checkbox", { name: `Select ${name}` });
  await person.click(box("a"));
  fireEvent.click(box("c"), { shiftKey: true });
  await person.click(box("e"));
  expect((await screen.findByText("4 selected")).textContent).toBe("4 selected");
  await person.click(screen.getByRole("button", { name: "Stop" }));
  const dialog = await screen.findByRole("dialog", { name: "Stop 3 workspaces?", hidden: true });
  expect(within(dialog).getByText("It changes nothing for 1 of those you selected.")).toBeTruthy();
  await person.click(within(dialog).getByText("Stop", { selector: "button" }));
  await waitFor(() => expect(screen.getByText("1 of 3 could not be asked")).toBeTruthy());
  const failed = document.querySelector(".bulk__failures")?.textContent;
  expect(failed).toMatch(/^b/);
  expect(requests.filter(({ method }) => method === "POST").map(({ path }) => path)).toEqual(
    ["a", "b", "c"].map((id) => `/api/v1/workspaces/${id}/stop`),
  );
});

test("what is not shown is not acted on", async () => {
  const { person } = show(<WorkspaceList />);
  sayWorkspaces(...some("alpha", "beta"));
  await inRows(person);
  await person.click(screen.getByRole("checkbox", { name: "Select all that are shown" }));
  expect(await screen.findByText("2 selected")).toBeTruthy();
  await person.type(screen.getByRole("searchbox"), "alp");
  expect(await screen.findByText("1 selected")).toBeTruthy();
});

test("the keys move, search, create and tell what they are", async () => {
  const { person } = show(<WorkspaceList />);
  sayWorkspaces(...some("a", "b"));
  await person.click(screen.getByLabelText("Cards"));
  await person.keyboard("j");
  expect(document.activeElement?.textContent).toBe("a");
  await person.keyboard("jj");
  expect(document.activeElement?.textContent).toBe("b");
  await person.keyboard("k");
  expect(document.activeElement?.textContent).toBe("a");
  await person.keyboard("/");
  expect(document.activeElement).toBe(screen.getByRole("searchbox"));
  await person.keyboard("jn?");
  expect((screen.getByRole("searchbox") as HTMLInputElement).value).toBe("jn?");
  await person.clear(screen.getByRole("searchbox"));
  (document.activeElement as HTMLElement).blur();
  await person.keyboard("?");
  await waitFor(() => expect(document.querySelector(".keys")).toBeTruthy());
  // In a dialog the letters belong to the dialog.
  await person.keyboard("n");
  expect(document.querySelectorAll("dialog")).toHaveLength(1);
  await person.click(screen.getByLabelText("Use these keys"));
  await person.click(screen.getByLabelText("Close"));
  await person.keyboard("n");
  expect(document.querySelectorAll("dialog")).toHaveLength(0);
});

test("a Korean keyboard has the same keys in the same places", () => {
  show(<WorkspaceList />);
  sayWorkspaces(...some("a"));
  fireEvent.keyDown(document.body, { key: "ㅓ" });
  expect(document.activeElement?.textContent).toBe("a");
});

test.each(["ctrlKey", "metaKey", "altKey", "isComposing"])("not with %s", (modifier) => {
  show(<WorkspaceList />);
  sayWorkspaces(...some("a"));
  fireEvent.keyDown(document.body, { key: "j", [modifier]: true });
  expect(document.activeElement).toBe(document.body);
});
