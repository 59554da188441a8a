import { screen, within } from "@testing-library/react";
import { beforeEach, expect, test } from "vitest";
import { answer, sayWorkspaces, show } from "../test-page";
import { aWorkspace } from "../test-support";
import "../ui/tags-dialog";
import { tagsIn } from "../ui/tags-dialog";
import { WorkspaceList } from "./workspaces";
import { grouping } from "./workspaces-groups";

const names = () => screen.getAllByRole("article").map((item) => item.getAttribute("aria-label"));
const listed = () =>
  sayWorkspaces(
    aWorkspace({ id: "a", name: "a", tags: ["papers"], last_access_at: "2026-01-09T00:00:00Z" }),
    aWorkspace({ id: "b", name: "b", tags: ["papers", "old"], last_access_at: "2026-01-08T00:00:00Z" }),
    aWorkspace({ id: "c", name: "c", pinned: true, last_access_at: "2026-01-01T00:00:00Z" }),
  );

beforeEach(() => {
  localStorage.clear();
  grouping.choose("none");
});

test("what is pinned comes first and says so", () => {
  show(<WorkspaceList />);
  listed();
  expect(names()).toEqual(["c", "a", "b"]);
  expect(within(screen.getByRole("article", { name: "c" })).getByText("Pinned")).toBeTruthy();
});

test("a tag narrows the list down, and is taken back by the same button", async () => {
  const { person } = show(<WorkspaceList />);
  listed();
  const old = screen.getByRole("button", { name: "old" });
  await person.click(old);
  expect(names()).toEqual(["b"]);
  expect(old.getAttribute("aria-pressed")).toBe("true");
  await person.click(old);
  expect(names()).toEqual(["c", "a", "b"]);
});

test("groups by tag show each workspace under each of its tags, and are remembered", async () => {
  const first = show(<WorkspaceList />);
  listed();
  await first.person.click(screen.getByLabelText("By tag"));
  const titles = screen.getAllByRole("heading", { level: 2 }).map((each) => each.textContent);
  expect(titles.filter((each) => ["old", "papers", "Without a tag"].includes(each))).toEqual([
    "old",
    "papers",
    "Without a tag",
  ]);
  expect(names()).toEqual(["b", "a", "b", "c"]);
  expect(localStorage.getItem("codehub.group")).toBe("tag");
});

test("tags are changed in a dialog, by one line", async () => {
  const { person } = show(<WorkspaceList />);
  listed();
  const asked = answer({
    "PATCH /workspaces/a": [200, aWorkspace({ id: "a", name: "a", tags: ["x"], version: 2 })],
  });
  await person.click(screen.getByRole("button", { name: "More actions for a" }));
  await person.click(await screen.findByRole("menuitem", { name: "Tags…" }));
  const field = await screen.findByRole("textbox", { name: "Tags" });
  await person.clear(field);
  await person.type(field, "x");
  await person.click(screen.getByRole("button", { name: "Save" }));
  await screen.findByRole("button", { name: "x" });
  expect(asked.find((each) => each.method === "PATCH")?.body).toEqual({ tags: ["x"] });
});

test("a line of tags is split at commas", () => {
  expect(tagsIn(" a, b c ,,d,")).toEqual(["a", "b c", "d"]);
});
