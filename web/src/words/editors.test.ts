import { expect, test } from "vitest";
import { aWorkspace } from "../test-support";
import { editorLinks, isOpen, sshHost } from "./editors";

const OWNER = aWorkspace().owner_id;

test.each([
  ["thesis", "thesis"],
  ["Thesis_2.final", "Thesis_2.final"],
  ["my thesis", null],
  ["논문", null],
  ["-oProxyCommand=x", null],
  ["a/b", null],
])("the workspace %j is the host %j", (name, host) => {
  const ws = aWorkspace({ name });
  expect(sshHost(ws, OWNER)).toBe(`${host ?? ws.id}.codehub`);
});

test("somebody else's is known by its id", () => {
  const ws = aWorkspace({ name: "thesis" });
  expect(sshHost(ws, "another")).toBe(`${ws.id}.codehub`);
});

test("addresses of editors", () => {
  expect(editorLinks("thesis.codehub", "/home/jovyan").map((each) => each.address)).toEqual([
    "vscode://vscode-remote/ssh-remote+thesis.codehub/home/jovyan",
    "cursor://vscode-remote/ssh-remote+thesis.codehub/home/jovyan",
    "jetbrains-gateway://connect#host=thesis.codehub&port=22&user=codehub&type=ssh&deploy=true&projectPath=%2Fhome%2Fjovyan",
  ]);
});

test("a home cannot say more than a path", () => {
  const [code, , gateway] = editorLinks("x.codehub", "/a b?c#d&host=evil");
  expect(code?.address).toBe("vscode://vscode-remote/ssh-remote+x.codehub/a%20b%3Fc%23d%26host%3Devil");
  expect(gateway?.address.match(/host=/g)).toHaveLength(1);
});

test("only what is wanted and seen running is open", () => {
  const running = { desired_state: "RUNNING", observed_status: "RUNNING", status: "running" } as const;
  expect(isOpen(aWorkspace(running))).toBe(true);
  expect(isOpen(aWorkspace({ ...running, desired_state: "STANDBY", status: "stopping" }))).toBe(false);
  expect(isOpen(aWorkspace({ ...running, status: "error" }))).toBe(false);
});
