import { screen, waitFor } from "@testing-library/react";
import { expect, test } from "vitest";
import { answer, show } from "../test-page";
import { aWorkspace } from "../test-support";
import { Inside } from "./workspace-inside";

const RUNNING = { desired_state: "RUNNING", observed_status: "RUNNING", status: "running" } as const;
const ws = aWorkspace({ ...RUNNING, name: "thesis" });
const RULES = { shares: [], highest: "private", lower_because: "no_base_domain", max_link_hours: 168 };
const SHARES = `GET /workspaces/${ws.id}/shares`;
const LINK = "http://codehub.test/w/x/port/3000/";

test("ports are links", async () => {
  const entry = { addresses: [], process: "node", is_ide: false, url: LINK };
  answer({
    [SHARES]: [200, RULES],
    [`GET /workspaces/${ws.id}/ports`]: [
      200,
      {
        ports: [
          { ...entry, port: 3000 },
          { ...entry, port: 5432, process: null },
          { ...entry, port: 8888, is_ide: true, url: "http://codehub.test/w/x/" },
        ],
        truncated: false,
        home: "/home/jovyan",
      },
    ],
  });
  show(<Inside workspace={ws} />);
  expect((await screen.findByRole("link", { name: "Open port 3000" })).getAttribute("href")).toBe(LINK);
  expect(screen.getByText("another user’s program")).toBeTruthy();
  expect(screen.getByText("the IDE")).toBeTruthy();
  expect(screen.getByRole("link", { name: "VS Code" }).getAttribute("href")).toBe(
    "vscode://vscode-remote/ssh-remote+thesis.codehub/home/jovyan",
  );
});

test("of a workspace that sleeps only its shares are asked", async () => {
  const sleeps = aWorkspace();
  const requests = answer({ [`GET /workspaces/${sleeps.id}/shares`]: [200, RULES] });
  show(<Inside workspace={sleeps} />);
  expect(screen.getByText("Open ports are shown while the workspace runs.")).toBeTruthy();
  expect(screen.queryByRole("link", { name: "VS Code" })).toBeNull();
  await waitFor(() => expect(requests).toHaveLength(1));
});

test("what cannot be looked at is said in words", async () => {
  answer({
    [`GET /workspaces/${ws.id}/ports`]: [503, { code: "unavailable", detail: "no" }],
    [`GET /workspaces/${ws.id}/processes`]: [200, { items: [] }],
    [SHARES]: [200, RULES],
  });
  show(<Inside workspace={ws} />);
  expect((await screen.findByRole("alert")).textContent).toMatch(/^The workspace did not answer/);
});
