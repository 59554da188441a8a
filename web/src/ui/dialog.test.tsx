import { screen, waitFor } from "@testing-library/react";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { limitRefusal, showLimit } from "../actions/limit";
import { ApiError } from "../api/client";
import type { Images } from "../api/types";
import { answer, sayWorkspaces, show } from "../test-page";
import { aWorkspace } from "../test-support";
import { serverNow } from "../words/clock";
import { CreateDialog } from "./create";
import { DeleteDialog } from "./delete";
import { Dialog } from "./dialog";
import { LimitDialog } from "./limit";

function anImage(name: string, installation: Installation | null = null) {
  return { name, title: null, node_local_home: false, installation };
}

type Installation = NonNullable<Images["items"][number]["installation"]>;

const LIMIT = { code: "limit_user", detail: "No more.", used: 1, allowed: 1 };
const IMAGES: [number, unknown] = [200, { items: [anImage("jupyterlab")], default: "jupyterlab" }];

function Opener() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Open
      </button>
      {open && (
        <Dialog title="A question" onClose={() => setOpen(false)} onSubmit={() => undefined}>
          <label>
            Name
            <input />
          </label>
        </Dialog>
      )}
    </>
  );
}

test("a dialog has a name, begins at its first field and gives the focus back", async () => {
  const { person } = show(<Opener />);
  const opener = screen.getByRole("button", { name: "Open" });
  await person.click(opener);
  expect(screen.getByRole("dialog", { name: "A question" })).toBeTruthy();
  expect(document.activeElement).toBe(screen.getByLabelText("Name"));
  await person.click(screen.getByRole("button", { name: "Close" }));
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(document.activeElement).toBe(opener);
});

test("the browser's cancel (Escape) closes it by way of its owner", async () => {
  const { person } = show(<Opener />);
  await person.click(screen.getByRole("button", { name: "Open" }));
  const cancel = new Event("cancel", { cancelable: true });
  screen.getByRole("dialog").dispatchEvent(cancel);
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(cancel.defaultPrevented).toBe(true);
});

test("deleting asks for the name before it asks the server", async () => {
  const ws = aWorkspace({ name: "atlas" });
  const requests = answer({ [`DELETE /workspaces/${ws.id}`]: [202, { ...ws, version: 2 }] });
  const onClose = vi.fn();
  const { person } = show(<DeleteDialog workspace={ws} onClose={onClose} />);
  const sure = screen.getByRole<HTMLButtonElement>("button", { name: "Delete for good" });
  await person.type(screen.getByLabelText("Type atlas to confirm"), "atla{Enter}");
  expect([sure.disabled, requests.length]).toEqual([true, 0]);
  await person.keyboard("s{Enter}");
  await waitFor(() => expect(onClose).toHaveBeenCalled());
  expect(requests.map((r) => r.method)).toEqual(["DELETE"]);
});

test("a new workspace is sent with what was chosen and nothing else", async () => {
  const requests = answer({
    "GET /images": IMAGES,
    "POST /workspaces": [201, aWorkspace({ name: "thesis" })],
  });
  const onClose = vi.fn();
  const { person } = show(<CreateDialog onClose={onClose} />);
  await screen.findByRole("radio", { name: /JupyterLab/ });
  await person.type(screen.getByLabelText("Name"), "thesis");
  await person.click(screen.getByRole("button", { name: "Create workspace" }));
  await waitFor(() => expect(onClose).toHaveBeenCalled());
  expect(requests.at(-1)?.body).toEqual({ name: "thesis", image_ref: "jupyterlab", start: true });
});

test("an image that is not installed says what it takes, before and after it is chosen", async () => {
  const vscode = { version: null, offered: "4.1", percent: null, fetched_mb: 260, disk_mb: 850 };
  const items = [anImage("jupyterlab"), anImage("code-server", vscode)];
  const requests = answer({
    "GET /images": [200, { items, default: "jupyterlab" }],
    "POST /workspaces": [201, aWorkspace({ name: "site" })],
  });
  const { person } = show(<CreateDialog onClose={() => undefined} />);
  const card = await screen.findByRole<HTMLInputElement>("radio", { name: /VS Code.*fetches 260 MB/ });
  expect(screen.queryByRole("note")).toBeNull();
  await person.click(card);
  expect(card.checked).toBe(true);
  expect(screen.getByRole("note").textContent).toContain("850 MB");
  await person.type(screen.getByLabelText("Name"), "site{Enter}");
  await waitFor(() => expect(requests.at(-1)?.body).toMatchObject({ image_ref: "code-server" }));
});

test("many images are a list", async () => {
  const items = ["a", "b", "c", "d", "e", "f", "g"].map((name) => anImage(name));
  answer({ "GET /images": [200, { items, default: "b" }] });
  show(<CreateDialog onClose={() => undefined} />);
  expect(await screen.findByRole("option", { name: "b (default)" })).toBeTruthy();
  expect(screen.queryByRole("radio")).toBeNull();
});

test("a name that is taken is said at the field", async () => {
  answer({ "GET /images": IMAGES, "POST /workspaces": [409, { code: "name_taken", detail: "Taken." }] });
  const { person } = show(<CreateDialog onClose={() => undefined} />);
  const name = screen.getByLabelText("Name");
  await person.type(name, "twin{Enter}");
  await screen.findByText("You already have a workspace of that name.");
  expect(name.getAttribute("aria-invalid")).toBe("true");
});

test("at the limit one of those that hold a place gives it, in one request", async () => {
  const wanted = aWorkspace({ id: "w", name: "wanted" });
  const busy = aWorkspace({
    id: "b",
    name: "busy",
    status: "running",
    observed_status: "RUNNING",
    holds_place: true,
    last_access_at: new Date(serverNow() - 3 * 3_600_000).toISOString(),
  });
  const free = aWorkspace({ id: "f", name: "free", desired_state: "RUNNING", holds_place: false });
  const requests = answer({ "POST /workspaces/w/start": [202, { ...wanted, version: 2 }] });
  const { person } = show(<LimitDialog />);
  sayWorkspaces(wanted, busy, free);
  const error = new ApiError("limit_user", 429, LIMIT.detail, [], LIMIT);
  showLimit({ workspace: wanted, error, wait: () => undefined });
  await screen.findByText("idle for 3 h");
  expect(screen.queryByText("free")).toBeNull();
  await person.click(screen.getByRole("button", { name: "Put busy to sleep and start wanted" }));
  expect(requests.map((r) => [r.path, r.body])).toEqual([
    ["/api/v1/workspaces/w/start", { instead_of: "b", queue: true }],
  ]);
  expect(limitRefusal.get()).toBeNull();
});

test("at the limit a creation waits in line", async () => {
  const requests = answer({
    "GET /images": IMAGES,
    "POST /workspaces": [429, { ...LIMIT, code: "limit_global" }],
  });
  const { person } = show(
    <>
      <CreateDialog onClose={() => undefined} />
      <LimitDialog />
    </>,
  );
  await screen.findByRole("radio", { name: /JupyterLab/ });
  await person.type(screen.getByLabelText("Name"), "thesis{Enter}");
  await person.click(await screen.findByRole("button", { name: "Wait in line" }));
  await waitFor(() => expect(requests.filter((r) => r.method === "POST").length).toBe(2));
  expect(requests.at(-1)?.body).toEqual({
    name: "thesis",
    image_ref: "jupyterlab",
    start: true,
    queue: true,
  });
  showLimit(null);
});
