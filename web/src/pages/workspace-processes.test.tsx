import { fireEvent, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { answer, show } from "../test-page";
import { aWorkspace } from "../test-support";
import { Processes } from "./workspace-processes";

const ws = aWorkspace({ desired_state: "RUNNING", observed_status: "RUNNING", status: "running" });
const PATH = `/workspaces/${ws.id}/processes`;
const running = {
  id: "5f0c2a9d1b7e",
  command: "make train",
  pid: 47,
  started_at: new Date().toISOString(),
  ended_at: null,
  exit_code: null,
  timed_out: false,
  output_bytes: 5,
  lost_bytes: 0,
};
const ended = {
  ...running,
  id: "aaaaaaaaaaaa",
  command: "./backup",
  ended_at: new Date().toISOString(),
  exit_code: 3,
  lost_bytes: 7,
};

test("what runs can be ended, and says what it said", async () => {
  const requests = answer({
    [`GET ${PATH}`]: [200, { items: [ended, running] }],
    [`GET ${PATH}/aaaaaaaaaaaa/logs`]: [200, `event: stdout\ndata: {"data": "${btoa("said\n")}"}\n\n`],
    [`POST ${PATH}/5f0c2a9d1b7e/kill`]: [200, running],
  });
  show(<Processes workspace={ws} />);
  expect(await screen.findByText("running")).toBeTruthy();
  expect(screen.getByText("exit code 3")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "End ./backup" })).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Output of ./backup" }));
  expect(await screen.findByText("said")).toBeTruthy();
  expect(screen.getByText("Only its latest output is kept; the beginning is gone.")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "End make train" }));
  expect(await screen.findByText("ending")).toBeTruthy();
  expect(requests.some((each) => JSON.stringify(each).includes("/kill"))).toBe(true);
});

test("none is a line, and one that sleeps is not asked", async () => {
  const requests = answer({ [`GET ${PATH}`]: [200, { items: [] }] });
  show(<Processes workspace={ws} />);
  expect(await screen.findByText("codehub exec --detach")).toBeTruthy();
  const before = requests.length;
  show(<Processes workspace={aWorkspace()} />);
  expect(requests.length).toBe(before);
});
