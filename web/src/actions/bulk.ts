/**
 * One action on several workspaces: which of them it concerns, and asking for each. A few requests at a time, each
 * counted when it is answered; what is refused is kept with its reason and stops none of the others.
 */
import { call } from "../api/client";
import type { DesiredState, Workspace } from "../api/types";
import type { LiveStore } from "../live/store";

export type BulkAction = "start" | "stop" | "archive";

const LEADS_TO: Record<BulkAction, DesiredState> = { start: "RUNNING", stop: "STANDBY", archive: "PENDING" };
const AT_ONCE = 4;

export interface BulkFailure {
  workspace: Workspace;
  error: unknown;
}

/** Those the action changes something for. To stop an archived one would unpack it: nobody means that. */
export function concernedBy(action: BulkAction, chosen: readonly Workspace[]): Workspace[] {
  return chosen.filter((ws) => {
    if (ws.queued_at !== null) return action !== "start"; // stopping takes it out of the line
    if (ws.deleted_at !== null || ws.desired_state === LEADS_TO[action]) return false;
    return action !== "stop" || ws.desired_state === "RUNNING";
  });
}

export async function askForEach(
  store: LiveStore,
  action: BulkAction,
  workspaces: readonly Workspace[],
  onAnswered: (answered: number) => void,
): Promise<BulkFailure[]> {
  const failures: BulkFailure[] = [];
  const waiting = [...workspaces];
  let answered = 0;
  const body = action === "start" ? { queue: true } : undefined;
  const work = async () => {
    for (let ws = waiting.shift(); ws; ws = waiting.shift()) {
      store.ask(ws.id, action);
      try {
        store.observe(await call<Workspace>("POST", `/workspaces/${ws.id}/${action}`, body));
      } catch (error) {
        failures.push({ workspace: ws, error });
      } finally {
        store.ask(ws.id, null);
      }
      onAnswered((answered += 1));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return failures;
}
