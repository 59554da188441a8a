import { screen, waitFor, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { navigate } from "../../router";
import { answer, sayWorkspaces, show } from "../../test-page";
import { aWorkspace } from "../../test-support";
import ArchivedFilesPage from "./archived";

const RUNNING = { desired_state: "RUNNING", observed_status: "RUNNING", status: "running" } as const;
const asleep = aWorkspace();
const OP = "7b0f5c1e-52c4-4f5e-9d0e-1f1d5b5f6a01";
const ATTEMPT = "0190c7a25b1e7c3d9f003a5d2c1b4e6f";
const PAGE = `/workspaces/${asleep.id}/archives/${OP}/${ATTEMPT}`;
const entry = (name: string, type = "file", target: string | null = null) => ({
  name,
  type,
  size: 5,
  mode: "0644",
  modified_at: "2026-01-01T00:00:00Z",
  target,
});
const generation = (attempt: string, made: string) => ({
  key: `${asleep.id}/${OP}/${attempt}/home.tar.zst`,
  bytes: 960_000_000,
  files: 41,
  sha256: "0".repeat(64),
  created_at: made,
  current: false,
  chosen: false,
  damaged: false,
  expiring: false,
});
const OTHER = "f".repeat(32);
const ANSWERS = {
  [`GET ${PAGE}/files?path=`]: [
    200,
    {
      entries: [entry("today.md"), entry("notes", "directory"), entry("l", "symlink", "/etc")],
      truncated: false,
    },
  ],
  [`GET /workspaces/${asleep.id}/archives`]: [
    200,
    {
      items: [generation(ATTEMPT, "2026-01-02T00:00:00Z"), generation(OTHER, "2026-01-01T00:00:00Z")],
      next_cursor: null,
    },
  ],
} satisfies Record<string, [number, unknown]>;

function open(search = "") {
  navigate(`${PAGE}${search}`);
  return show(<ArchivedFilesPage id={asleep.id} op={OP} attempt={ATTEMPT} />);
}

test("a sleeping workspace's archive is listed, and nothing is woken", async () => {
  const requests = answer(ANSWERS);
  const { person } = open();
  sayWorkspaces(asleep);
  const table = await screen.findByRole("table");
  expect(within(table).getByRole("link", { name: "notes" }).getAttribute("href")).toBe(`${PAGE}?path=notes`);
  expect(within(table).getByRole("link", { name: "today.md" }).getAttribute("href")).toContain(
    "/content?path=",
  );
  expect(within(table).queryByRole("link", { name: "l" })).toBeNull();
  expect(within(table).getByText("Link to /etc")).toBeTruthy();
  await person.click(screen.getByRole("button", { name: "Actions for today.md" }));
  await person.click(screen.getByRole("menuitem", { name: "Put back…" }));
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Put back" }).disabled).toBe(true);
  expect(requests.every((each) => each.method === "GET")).toBe(true);
});

test("another time keeps the folder", async () => {
  answer({ ...ANSWERS, [`GET ${PAGE}/files?path=notes`]: [200, { entries: [], truncated: false }] });
  const { person } = open("?path=notes");
  sayWorkspaces(asleep);
  await screen.findByText("This folder is empty.");
  await person.selectOptions(await screen.findByLabelText("Archive made"), `${OP}/${OTHER}`);
  expect(window.location.pathname + window.location.search).toBe(
    `/workspaces/${asleep.id}/archives/${OP}/${OTHER}?path=notes`,
  );
});

test("a file that is there is replaced only when agreed to", async () => {
  const requests = answer({
    ...ANSWERS,
    [`POST ${PAGE}/files/put-back`]: [
      409,
      { type: "", title: "", status: 409, detail: "file exists", code: "file_conflict" },
    ],
  });
  const { person } = open();
  sayWorkspaces(aWorkspace(RUNNING));
  await person.click(await screen.findByRole("button", { name: "Actions for today.md" }));
  await person.click(screen.getByRole("menuitem", { name: "Put back…" }));
  await person.click(screen.getByRole("button", { name: "Put back" }));
  await screen.findByText(/^Something of that name is already there/);
  await person.click(screen.getByRole("checkbox", { name: "Replace the file that is there" }));
  await person.click(screen.getByRole("button", { name: "Put back" }));
  await waitFor(() => {
    const bodies = requests.filter((each) => each.method === "POST").map((each) => each.body);
    expect(bodies).toEqual([
      { path: "today.md", overwrite: false },
      { path: "today.md", overwrite: true },
    ]);
  });
});
