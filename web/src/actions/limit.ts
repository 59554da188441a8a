/** A start or a creation that was refused because of a limit, until the person has dealt with it. */
import type { ApiError } from "../api/client";
import type { Workspace } from "../api/types";
import { Store } from "../store";

export interface LimitRefusal {
  /** What was to be started; null while it does not exist yet (a creation was refused). */
  workspace: Workspace | null;
  error: ApiError;
  /** Asks again, to wait in line; null: what was asked for cannot wait. */
  wait: (() => void) | null;
}

export const limitRefusal = new Store<LimitRefusal | null>(null);

export const showLimit = limitRefusal.set;
