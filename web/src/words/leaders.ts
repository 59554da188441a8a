/** Who leads each coordinator, a row each; with different lock ids there are several leaders of one. */
import type { CoordinatorHealth, Overview } from "../api/types";

export interface LeaderRow {
  lock: string;
  name: string;
  /** Set for a leader besides ours: its COORDINATOR_LOCK_ID, empty if it has none. */
  rivalLockId: string | null;
  holder: string | null;
  since: string | null;
  epoch: number | null;
  here: boolean;
  lastTickAt: string | null;
  lastError: string | null;
  away: [engine: string, why: string][];
}

type Told = Overview["leaders"][number];
type Seen = CoordinatorHealth["coordinators"][string];

const LOCK = /^(?:(.*):)?coordinator:([^:]*)$/;

/** The database knows who leads; the node that answered knows how its own coordinators do. Both in one row. */
export function leaderRows(overview: Overview, health: CoordinatorHealth | undefined): LeaderRow[] {
  const seen = health?.coordinators ?? {};
  const rivals = new Set(Object.values(seen).flatMap((each) => each.rivals.map((rival) => rival.lock_name)));
  const told = overview.leaders.map((leader) => {
    const [, lockId = "", name = leader.name] = LOCK.exec(leader.name) ?? [];
    return { leader, lockId, name };
  });
  const names = new Set([...Object.keys(seen), ...told.map((each) => each.name)]);
  return [...names].flatMap((name) => {
    const leading = told.filter((each) => each.name === name);
    const ours = leading.find((each) => !rivals.has(each.leader.name));
    const others = leading.filter((each) => each !== ours);
    return [
      row(name, null, ours?.leader, seen[name]),
      ...others.map((each) => row(name, each.lockId, each.leader, undefined)),
    ];
  });
}

/** Replicas that lead beside ours, each once. */
export function rivalHolders(health: CoordinatorHealth | undefined): string[] {
  const all = Object.values(health?.coordinators ?? {}).flatMap((each) => each.rivals);
  return [...new Set(all.map((rival) => rival.holder_id))];
}

function row(
  name: string,
  rivalLockId: string | null,
  told: Told | undefined,
  seen: Seen | undefined,
): LeaderRow {
  return {
    lock: told?.name ?? name,
    name,
    rivalLockId,
    holder: told?.holder_id ?? seen?.holder_id ?? null,
    since: told?.acquired_at ?? seen?.acquired_at ?? null,
    epoch: told?.epoch ?? seen?.epoch ?? null,
    here: seen?.is_leader ?? false,
    lastTickAt: told?.last_tick_at ?? seen?.last_tick_at ?? null,
    lastError: seen?.last_error ?? null,
    away: Object.entries(seen?.away ?? {}).map(([engine, why]) => [engine, String(why)]),
  };
}
