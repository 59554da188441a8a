/** The live stores as React sees them: mine for everyone signed in, everyone's where an administrator looks at it. */
import { createContext, useContext, useEffect, useMemo, type ReactNode } from "react";
import { call } from "../api/client";
import type { Workspace } from "../api/types";
import { useStore } from "../store";
import { LiveStore, type ActionName, type LiveView } from "./store";

const StoreContext = createContext<LiveStore | null>(null);

export function LiveProvider({ url, children }: { url: string; children: ReactNode }) {
  const store = useMemo(() => new LiveStore(url, mayRetry), [url]);
  useEffect(() => store.start(), [store]);
  return <StoreContext.Provider value={store}>{children}</StoreContext.Provider>;
}

export function useLiveStore(): LiveStore {
  const store = useContext(StoreContext);
  if (!store) throw new Error("no LiveProvider above this component");
  return store;
}

/** What `select` takes of the live view; the component renders again when that part changes, and only then. */
export function useLive<Part>(select: (view: LiveView) => Part): Part {
  return useStore(useLiveStore(), select);
}

export function useWorkspace(id: string): Workspace | undefined {
  return useLive((live) => live.workspaces.get(id));
}

/** What was asked of this workspace and not yet answered. */
export function useAsking(id: string): ActionName | null {
  return useLive((live) => live.asking.get(id) ?? null);
}

/** EventSource does not tell a refused session from a broken line. Asking for the session does (and a 401 signs out). */
async function mayRetry(): Promise<boolean> {
  try {
    await call("GET", "/auth/session");
    return true;
  } catch (error) {
    return !(error instanceof Error && "status" in error && error.status === 401);
  }
}
