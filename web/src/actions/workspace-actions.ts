/**
 * What a person can do with a workspace. An action is sent, shown as "asking" until the server has recorded it, and
 * then shown as wanted until it is observed: nothing here ever pretends that it has happened.
 */
import { useMemo } from "react";
import { useLiveStore } from "../live/hooks";
import type { ActionName } from "../live/store";
import { showLimit } from "./limit";
import { notifyError } from "./notices";
import { ApiError, call } from "../api/client";
import type { StartWith, Workspace, WorkspaceEdit } from "../api/types";

export interface WorkspaceActions {
  start: (ws: Workspace, how?: StartWith) => Promise<boolean>;
  stop: (ws: Workspace) => Promise<boolean>;
  archive: (ws: Workspace) => Promise<boolean>;
  keepAwake: (ws: Workspace, hours: number) => Promise<boolean>;
  recover: (ws: Workspace) => Promise<boolean>;
  returnToArchive: (ws: Workspace, archiveKey: string) => Promise<boolean>;
  restore: (ws: Workspace, archiveKey: string, start: boolean) => Promise<boolean>;
  stay: (ws: Workspace) => Promise<boolean>;
  /** Of the present home, or (with its key) of an archive. */
  takeSnapshot: (ws: Workspace, name: string, archiveKey?: string) => Promise<boolean>;
  renameSnapshot: (ws: Workspace, id: string, name: string) => Promise<boolean>;
  deleteSnapshot: (ws: Workspace, id: string) => Promise<boolean>;
  remove: (ws: Workspace) => Promise<boolean>;
  edit: (ws: Workspace, change: WorkspaceEdit) => Promise<void>;
}

export function useWorkspaceActions(): WorkspaceActions {
  const store = useLiveStore();
  return useMemo(() => {
    const ask = async (ws: Workspace, action: ActionName, request: () => Promise<Workspace | undefined>) => {
      store.ask(ws.id, action);
      try {
        const answer = await request();
        if (answer?.version !== undefined) store.observe(answer);
        return true;
      } catch (error) {
        if (error instanceof ApiError && error.code.startsWith("limit_"))
          showLimit({
            workspace: ws,
            error,
            wait: action === "start" ? () => void post(ws, "start", { queue: true }) : null,
          });
        else notifyError(error);
        return false;
      } finally {
        store.ask(ws.id, null);
      }
    };
    const post = (ws: Workspace, action: ActionName, body?: unknown) =>
      ask(ws, action, () => call<Workspace>("POST", `/workspaces/${ws.id}/${action}`, body));
    return {
      start: (ws, how) => post(ws, "start", how),
      stop: (ws) => post(ws, "stop"),
      archive: (ws) => post(ws, "archive"),
      recover: (ws) => post(ws, "recover"),
      keepAwake: (ws, hours) => post(ws, "keep-awake", { hours }),
      returnToArchive: (ws, archiveKey) => post(ws, "return-to-archive", { archive_key: archiveKey }),
      restore: (ws, archiveKey, start) => {
        const [, op_id, attempt] = archiveKey.split("/");
        return post(ws, "restore", { op_id, attempt, start });
      },
      stay: (ws) => ask(ws, "restore", () => call<Workspace>("DELETE", `/workspaces/${ws.id}/restore`)),
      takeSnapshot: (ws, name, archiveKey) => {
        const [, op_id, attempt] = archiveKey?.split("/") ?? [];
        return post(ws, "snapshots", { name, op_id, attempt });
      },
      renameSnapshot: (ws, id, name) =>
        ask(ws, "snapshots", () =>
          call<Workspace>("PATCH", `/workspaces/${ws.id}/snapshots/${id}`, { name }),
        ),
      deleteSnapshot: (ws, id) =>
        ask(ws, "snapshots", () => call<Workspace>("DELETE", `/workspaces/${ws.id}/snapshots/${id}`)),
      remove: (ws) => ask(ws, "delete", () => call<Workspace | undefined>("DELETE", `/workspaces/${ws.id}`)),
      edit: async (ws, change) => {
        // Names and notes are the person's own words: showing them at once cannot mislead anybody.
        const undo = store.assume(ws.id, change);
        try {
          store.observe(await call<Workspace>("PATCH", `/workspaces/${ws.id}`, change));
        } catch (error) {
          undo();
          throw error;
        }
      },
    };
  }, [store]);
}
