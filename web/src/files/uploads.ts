/**
 * Files on their way into a workspace, one after the other. They go on while the person looks at other pages of the
 * dashboard. A file is there complete or not at all, because CodeHub gives it its name after the last byte.
 */
import { ApiError, problemOf } from "../api/client";
import { Signal, Store } from "../store";
import { contentPath, join } from "./paths";

export type UploadState = "waiting" | "sending" | "done" | "failed" | "cancelled";

export interface Upload {
  id: number;
  name: string;
  folder: string;
  size: number;
  sent: number;
  state: UploadState;
  error: unknown;
}

export interface Sending {
  done: Promise<void>;
  cancel: () => void;
}

export interface Send {
  (
    file: File,
    target: { workspaceId: string; path: string; overwrite: boolean },
    onSent: (bytes: number) => void,
  ): Sending;
}

interface Task {
  file: File;
  overwrite: boolean;
}

export class UploadQueue {
  readonly uploads = new Store<readonly Upload[]>([]);
  /** The folder into which a file has come. */
  readonly arrived = new Signal<[folder: string]>();
  private readonly tasks = new Map<number, Task>();
  private current: { id: number; cancel: () => void } | null = null;
  private counter = 0;

  constructor(
    private readonly workspaceId: string,
    private readonly send: Send = sendFile,
  ) {}

  get isBusy(): boolean {
    return this.tasks.size > 0;
  }

  add(folder: string, files: readonly File[], overwrite: (name: string) => boolean): void {
    const added = files.map((file): Upload => {
      const id = ++this.counter;
      this.tasks.set(id, { file, overwrite: overwrite(file.name) });
      return { id, name: file.name, folder, size: file.size, sent: 0, state: "waiting", error: null };
    });
    this.uploads.set([...this.uploads.get(), ...added]);
    void this.work();
  }

  cancel(id: number): void {
    if (!this.tasks.has(id)) return;
    this.change(id, { state: "cancelled" });
    this.tasks.delete(id);
    if (this.current?.id === id) this.current.cancel();
  }

  /** Take what has ended off the list. */
  clear(): void {
    this.uploads.set(this.uploads.get().filter((each) => this.tasks.has(each.id)));
  }

  private async work(): Promise<void> {
    if (this.current) return;
    let next: Upload | undefined;
    while ((next = this.uploads.get().find((each) => each.state === "waiting"))) await this.run(next);
  }

  private async run({ id, folder, name }: Upload): Promise<void> {
    const task = this.tasks.get(id);
    if (!task) return;
    this.change(id, { state: "sending" });
    const target = { workspaceId: this.workspaceId, path: join(folder, name), overwrite: task.overwrite };
    const sending = this.send(task.file, target, (sent) => this.change(id, { sent }));
    this.current = { id, cancel: sending.cancel };
    try {
      await sending.done;
      this.change(id, { state: "done", sent: task.file.size });
      this.arrived.emit(folder);
    } catch (error) {
      if (this.tasks.has(id)) this.change(id, { state: "failed", error });
    } finally {
      this.tasks.delete(id);
      this.current = null;
      // Once more, so that whoever asks isBusy when told of a change is not told the state before.
      this.uploads.set([...this.uploads.get()]);
    }
  }

  private change(id: number, change: Partial<Upload>): void {
    this.uploads.set(this.uploads.get().map((each) => (each.id === id ? { ...each, ...change } : each)));
  }
}

const queues = new Map<string, UploadQueue>();

/** The queue of a workspace, for as long as the dashboard is open. */
export function uploadsOf(workspaceId: string): UploadQueue {
  const queue = queues.get(workspaceId) ?? new UploadQueue(workspaceId);
  queues.set(workspaceId, queue);
  return queue;
}

/** By XMLHttpRequest: fetch does not tell how much has been sent. */
const sendFile: Send = (file, { workspaceId, path, overwrite }, onSent) => {
  const request = new XMLHttpRequest();
  const done = new Promise<void>((resolve, reject) => {
    request.upload.onprogress = (event) => onSent(event.loaded);
    request.onerror = () => reject(new ApiError("network", 0, null));
    request.onabort = () => reject(new ApiError("network", 0, null));
    request.onload = () => {
      if (request.status < 300) resolve();
      else
        problemOf(new Response(request.responseText, { status: request.status }), "/files").then(
          reject,
          reject,
        );
    };
    request.open("PUT", `/api/v1${contentPath(workspaceId, path)}&overwrite=${overwrite}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.send(file);
  });
  return { done, cancel: () => request.abort() };
};
