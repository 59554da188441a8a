import { screen, waitFor } from "@testing-library/react";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { limitRefusal, showLimit } from "../actions/limit";
import { ApiError } from "../api/client";
import { answer, sayWorkspaces, show } from "../test-page";
import { aWorkspace } from "../test-support";
import { CreateDialog } from "./create";
import { DeleteDialog } from "./delete";
import { Dialog } from "./dialog";
import { LimitDialog } from "./limit";

const LIMIT = { code: "limit_user", detail: "No more.", used: 1, allowed: 1 };
const IMAGES: [number, unknown] = [
  200,
  { items: [{ name: "jupyterlab", node_local_home: false }], default: "jupyterlab" },
];

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
  await screen.findByRole("option", { name: /jupyterlab/ });
  await person.type(screen.getByLabelText("Name"), "thesis");
  await person.click(screen.getByRole("button", { name: "Create workspace" }));
  await waitFor(() => expect(onClose).toHaveBeenCalled());
  expect(requests.at(-1)?.body).toEqual({ name: "thesis", image_ref: "jupyterlab", start: true });
});

test("a name that is taken is said at the field", async () => {
  answer({ "GET /images": IMAGES, "POST /workspaces": [409, { code: "name_taken", detail: "Taken." }] });
  const { person } = show(<CreateDialog onClose={() => undefined} />);
  const name = screen.getByLabelText("Name");
  await person.type(name, "twin{Enter}");
  await screen.findByText("You already have a workspace of that name.");
  expect(name.getAttribute("aria-invalid")).toBe("true");
});

test("at the limit it lists what the server says holds a place, and starts once there is room", async () => {
  const wanted = aWorkspace({ id: "w", name: "wanted" });
  const busy = aWorkspace({ id: "b", name: "busy", status: "running", holds_place: true });
  const free = aWorkspace({ id: "f", name: "free", desired_state: "RUNNING", holds_place: false });
  const requests = answer({
    "POST /workspaces/b/stop": [202, { ...busy, version: 2, holds_place: false }],
    "POST /workspaces/w/start": [202, { ...wanted, version: 2 }],
  });
  const { person } = show(<LimitDialog />);
  sayWorkspaces(wanted, busy, free);
  showLimit({ workspace: wanted, error: new ApiError("limit_user", 429, LIMIT.detail, [], LIMIT) });
  const start = await screen.findByRole<HTMLButtonElement>("button", { name: "Start wanted" });
  expect(start.disabled).toBe(true);
  expect(screen.queryByRole("button", { name: "Stop free" })).toBeNull();
  await person.click(screen.getByRole("button", { name: "Stop busy" }));
  await waitFor(() => expect(start.disabled).toBe(false));
  await person.click(start);
  expect(requests.map((r) => r.path)).toEqual(["/api/v1/workspaces/b/stop", "/api/v1/workspaces/w/start"]);
  expect(limitRefusal.get()).toBeNull();
});
