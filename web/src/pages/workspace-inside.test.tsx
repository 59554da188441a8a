import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { answer, show } from "../test-page";
import { aWorkspace } from "../test-support";
import { Inside } from "./workspace-inside";

const RUNNING = { desired_state: "RUNNING", observed_status: "RUNNING", status: "running" } as const;
const ws = aWorkspace({ ...RUNNING, name: "thesis" });
const LINK = "http://codehub.test/w/x/port/3000/";

test("ports are links where the browser reaches them, and a command where it does not", async () => {
  const entry = { addresses: [], process: "node", is_ide: false, url: null };
  answer({
    [`GET /workspaces/${ws.id}/ports`]: [
      200,
      {
        ports: [
          { ...entry, port: 3000, url: LINK },
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
  expect(screen.queryByRole("link", { name: "Open port 5432" })).toBeNull();
  expect(screen.getByText(`codehub port-forward ${ws.id} 5432`)).toBeTruthy();
  expect(screen.getByText("the IDE")).toBeTruthy();
  expect(screen.getByRole("link", { name: "VS Code" }).getAttribute("href")).toBe(
    "vscode://vscode-remote/ssh-remote+thesis.codehub/home/jovyan",
  );
});

test("a workspace that sleeps is not asked", () => {
  const requests = answer({});
  show(<Inside workspace={aWorkspace()} />);
  expect(screen.getByText("Open ports are shown while the workspace runs.")).toBeTruthy();
  expect(screen.queryByRole("link", { name: "VS Code" })).toBeNull();
  expect(requests).toEqual([]);
});

test("what cannot be looked at is said in words", async () => {
  answer({ [`GET /workspaces/${ws.id}/ports`]: [503, { code: "unavailable", detail: "no" }] });
  show(<Inside workspace={ws} />);
  expect((await screen.findByRole("alert")).textContent).toMatch(/^The workspace did not answer/);
});
