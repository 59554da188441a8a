/** Which engines cannot be used, and what they last said. */
import type { CoordinatorHealth } from "../api/types";

export function enginesAway(health: CoordinatorHealth | undefined): [string, string][] {
  const all = Object.values(health?.coordinators ?? {}).flatMap((each) => Object.entries(each.away ?? {}));
  return [...new Map(all.map(([engine, why]) => [engine, String(why)]))];
}
