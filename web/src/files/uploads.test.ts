import { expect, test } from "vitest";
import { ApiError } from "../api/client";
import { UploadQueue, type Send } from "./uploads";

/** A server that answers when the test says so. */
function server() {
  const requests: {
    path: string;
    overwrite: boolean;
    sent: (bytes: number) => void;
    answer: (error?: unknown) => void;
    cancelled: boolean;
  }[] = [];
  const send: Send = (_file, { path, overwrite }, sent) => {
    let answer: (error?: unknown) => void = () => undefined;
    const done = new Promise<void>((resolve, reject) => {
      answer = (error) => (error === undefined ? resolve() : reject(error as Error));
    });
    const request = { path, overwrite, sent, answer, cancelled: false };
    requests.push(request);
    return {
      done,
      cancel: () => {
        request.cancelled = true;
        answer(new ApiError("network", 0, null));
      },
    };
  };
  return { requests, send };
}

const file = (name: string, size = 4) => new File(["x".repeat(size)], name);
const settled = () => new Promise((resolve) => setTimeout(resolve));
const states = (queue: UploadQueue) => queue.uploads.get().map((each) => each.state);

test("files go one after the other, and only what was agreed to replaces", async () => {
  const { requests, send } = server();
  const queue = new UploadQueue("id", send);
  const arrived: string[] = [];
  queue.arrived.subscribe((folder) => arrived.push(folder));
  queue.add("notes", [file("a"), file("b")], (name) => name === "b");
  expect(states(queue)).toEqual(["sending", "waiting"]);
  requests[0]?.sent(2);
  expect(queue.uploads.get()[0]).toMatchObject({ sent: 2, size: 4 });
  requests[0]?.answer();
  await settled();
  expect(states(queue)).toEqual(["done", "sending"]);
  expect(requests.map((each) => [each.path, each.overwrite])).toEqual([
    ["notes/a", false],
    ["notes/b", true],
  ]);
  expect(queue.isBusy).toBe(true);
  requests[1]?.answer();
  await settled();
  expect([states(queue), queue.isBusy, arrived]).toEqual([["done", "done"], false, ["notes", "notes"]]);
  queue.clear();
  expect(queue.uploads.get()).toEqual([]);
});

test("a refusal is told, and the next one goes on", async () => {
  const { requests, send } = server();
  const queue = new UploadQueue("id", send);
  const full = new ApiError("no_space", 507, null);
  queue.add("", [file("a"), file("b")], () => false);
  requests[0]?.answer(full);
  await settled();
  expect(states(queue)).toEqual(["failed", "sending"]);
  expect(queue.uploads.get()[0]?.error).toBe(full);
});

test("what is cancelled is no failure, under way or not", async () => {
  const { requests, send } = server();
  const queue = new UploadQueue("id", send);
  queue.add("", [file("a"), file("b"), file("c")], () => false);
  const [a, b] = queue.uploads.get();
  queue.cancel(b!.id);
  queue.cancel(a!.id);
  await settled();
  expect(requests[0]?.cancelled).toBe(true);
  expect(states(queue)).toEqual(["cancelled", "cancelled", "sending"]);
  expect(requests.map((each) => each.path)).toEqual(["a", "c"]);
});
