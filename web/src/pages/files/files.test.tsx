import { screen, waitFor, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { navigate } from "../../router";
import { answer, sayWorkspaces, show } from "../../test-page";
import { aWorkspace } from "../../test-support";
import FilesPage from ".";

const RUNNING = { desired_state: "RUNNING", observed_status: "RUNNING", status: "running" } as const;
const ws = aWorkspace(RUNNING);
const listed = (...names: string[]) => ({
  entries: names.map((name) => ({
    name,
    type: name.endsWith("/") ? "directory" : "file",
    size: 5,
    mode: "0644",
    modified_at: "2026-01-01T00:00:00Z",
    target: null,
  })),
  truncated: false,
});
const FILES = `/workspaces/${ws.id}/files`;

function open(search = "") {
  navigate(`${FILES}${search}`);
  return show(<FilesPage id={ws.id} />);
}

test("a workspace that sleeps is not asked, and wakes only by the button", async () => {
  const asleep = aWorkspace();
  const requests = answer({
    [`POST /workspaces/${asleep.id}/start`]: [202, { ...asleep, version: 2, desired_state: "RUNNING" }],
  });
  const { person } = open();
  sayWorkspaces(asleep);
  await screen.findByText(/^Asleep\. Files can be seen/);
  expect(requests.filter((each) => each.path.includes(asleep.id))).toEqual([]);
  await person.click(screen.getByRole("button", { name: "Wake" }));
  await screen.findByText(/^Starting\. Files appear/);
  expect(requests.filter((each) => each.path.includes("files"))).toEqual([]);
});

test("files are listed, hidden ones when asked for", async () => {
  answer({ [`GET ${FILES}?path=`]: [200, listed("b.txt", ".profile", "a.txt")] });
  const { person } = open();
  sayWorkspaces(ws);
  const table = await screen.findByRole("table");
  const names = () =>
    within(table)
      .getAllByRole("link")
      .map((link) => link.textContent);
  expect(names()).toEqual(["a.txt", "b.txt"]);
  await person.click(screen.getByRole("checkbox", { name: "Show hidden files" }));
  expect(names()).toEqual([".profile", "a.txt", "b.txt"]);
  await person.click(screen.getByRole("checkbox", { name: "Show hidden files" }));
});

test.each([
  ["file_refused", 403, /^Permission denied/],
  ["file_not_found", 404, /^It is not there any more/],
  ["unavailable", 503, /^The workspace did not answer/],
])("the refusal %s is told in words", async (code, status, words) => {
  answer({ [`GET ${FILES}?path=x`]: [status, { code, detail: "open x: no" }] });
  open("?path=x");
  sayWorkspaces(ws);
  expect((await screen.findByRole("alert")).textContent).toMatch(words);
});

test("a link that leads to a file is shown as that file", async () => {
  answer({ [`GET ${FILES}?path=link`]: [409, { code: "file_conflict", detail: "not a directory" }] });
  open("?path=link");
  sayWorkspaces(ws);
  await waitFor(() => expect(window.location.search).toBe("?file=link"));
});

test("what exists is replaced only when the person says so", async () => {
  const requests = answer({ [`GET ${FILES}?path=`]: [200, listed("a.txt")] });
  const { person, container } = open();
  sayWorkspaces(ws);
  await screen.findByRole("table");
  const input = container.querySelector<HTMLInputElement>("input[type=file]");
  await person.upload(input!, new File(["x"], "a.txt"));
  const dialog = await screen.findByRole("dialog", { hidden: true });
  expect(dialog.textContent).toContain("Replace a file?");
  expect(dialog.textContent).toContain("a.txt");
  await person.click(within(dialog).getByRole("button", { name: "Cancel", hidden: true }));
  expect(screen.queryByText("Uploads")).toBeNull();
  expect(requests.every((each) => each.method === "GET")).toBe(true);
});

test("deleting asks, and says what went wrong", async () => {
  const path = `${FILES}?path=a.txt&recursive=false`;
  const requests = answer({
    [`GET ${FILES}?path=`]: [200, listed("a.txt")],
    [`DELETE ${path}`]: [403, { code: "file_refused", detail: "no" }],
  });
  const { person } = open();
  sayWorkspaces(ws);
  await person.click(await screen.findByRole("button", { name: "Actions for a.txt" }));
  await person.click(await screen.findByRole("menuitem", { name: "Delete…" }));
  const dialog = await screen.findByRole("dialog", { hidden: true });
  expect(requests.some((each) => each.method === "DELETE")).toBe(false);
  await person.click(within(dialog).getByRole("button", { name: "Delete", hidden: true }));
  expect((await within(dialog).findByRole("alert", { hidden: true })).textContent).toMatch(
    /^Permission denied/,
  );
});
