import { expect, test } from "vitest";
import { isOwnPage, match } from "./router";

test("patterns", () => {
  expect(match("/workspaces/:id", "/workspaces/abc")).toEqual({ id: "abc" });
  expect(match("/workspaces/:id", "/workspaces/abc/")).toEqual({ id: "abc" });
  expect(match("/workspaces/:id", "/workspaces")).toBeNull();
  expect(match("/", "/")).toEqual({});
});

test("a workspace under /w/ is the server's page, not ours", () => {
  expect(isOwnPage("/w/abc/")).toBe(false);
  expect(isOwnPage("/api/v1/x")).toBe(false);
  expect(isOwnPage("/admin/users?x=1")).toBe(true);
});
