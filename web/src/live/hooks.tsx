/** The live stores as React sees them: mine for everyone signed in, everyone's where an administrator looks at it. */
import { createContext, useContext, useEffect, useMemo, useSyncExternalStore, type ReactNode } from "react";
import { call } from "../api/client";
import type { Workspace } from "../api/types";
import { LiveStore, type LiveView } from "./store";

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

export function useLive(): LiveView {
  const store = useLiveStore();
  return useSyncExternalStore(store.subscribe, store.get);
}

export function useLiveWorkspace(id: string): Workspace | undefined {
  return useLive().workspaces.get(id);
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
