import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Shares } from "../api/types";
import { answer, show } from "../test-page";
import { aWorkspace } from "../test-support";
import { WorkspacePorts } from "./workspace-ports";

const ws = aWorkspace({ desired_state: "RUNNING", observed_status: "RUNNING", status: "running" });
const PATH = `/workspaces/${ws.id}/shares`;
const DEMO = {
  port: 3000,
  label: "the demo",
  level: "public",
  level_now: "public",
  expires_at: "2099-01-01T00:00:00Z",
  url: "https://3000--x.test/",
  link: "https://3000--x.test/_codehub/share?key=k3y",
} as const;
const RULES: Shares = { shares: [], highest: "public", lower_because: null, max_link_hours: 168 };
const PORTS = {
  ports: [
    { port: 3000, addresses: [], process: "node", is_ide: false, url: "https://3000--x.test/" },
    { port: 8888, addresses: [], process: "code", is_ide: true, url: "https://x.test/" },
  ],
  truncated: false,
  home: null,
};

test("shares are shown beside what listens, and the IDE is never offered", async () => {
  const quiet = { ...DEMO, port: 4000, label: "quiet", level: "signed_in", level_now: "private", link: null };
  answer({ [`GET ${PATH}`]: [200, { ...RULES, shares: [DEMO, quiet] }] });
  show(<WorkspacePorts workspace={ws} ports={PORTS} error={null} open />);
  expect(await screen.findByText("the demo")).toBeTruthy();
  expect(screen.getByText(/^Public link/)).toBeTruthy();
  expect(screen.getByText("share is over")).toBeTruthy();
  expect(screen.getByText("nothing listens")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Share or label port 3000" })).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Share or label port 8888" })).toBeNull();
});

test("a public link is made with an end, and shown to be copied", async () => {
  const answers: Parameters<typeof answer>[0] = {
    [`GET ${PATH}`]: [200, RULES],
    [`PUT ${PATH}/3000`]: [200, DEMO],
  };
  const requests = answer(answers);
  show(<WorkspacePorts workspace={ws} ports={PORTS} error={null} open />);
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Share or label port 3000" }));
  await user.type(screen.getByLabelText(/^Label/), "the demo");
  await user.selectOptions(screen.getByLabelText("Who may open it"), "public");
  answers[`GET ${PATH}`] = [200, { ...RULES, shares: [DEMO] }];
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect(await screen.findByText(DEMO.link)).toBeTruthy();
  expect(requests.find((each) => each.method === "PUT")?.body).toEqual({
    level: "public",
    label: "the demo",
    lasts_seconds: 86400,
    new_link: false,
  });
});

test("what the installation does not allow cannot be chosen, and says why", async () => {
  answer({ [`GET ${PATH}`]: [200, { ...RULES, highest: "private", lower_because: "no_base_domain" }] });
  show(<WorkspacePorts workspace={ws} ports={PORTS} error={null} open />);
  await userEvent.click(await screen.findByRole("button", { name: "Share or label port 3000" }));
  const options = screen.getAllByRole<HTMLOptionElement>("option");
  expect(options.map((each) => each.disabled)).toEqual([false, true, true]);
  expect(screen.getByText(/domains of their own/)).toBeTruthy();
});

test("taking a share back closes the dialog", async () => {
  const requests = answer({
    [`GET ${PATH}`]: [200, { ...RULES, shares: [DEMO] }],
    [`DELETE ${PATH}/3000`]: [204, null],
  });
  show(<WorkspacePorts workspace={ws} ports={PORTS} error={null} open />);
  await userEvent.click(await screen.findByRole("button", { name: "Share or label port 3000" }));
  await userEvent.click(screen.getByRole("button", { name: "Take back" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(requests.some((each) => each.method === "DELETE")).toBe(true);
});
