"""A witness inside the database: every change of the rows that matter is written down and judged.

Triggers of the round's own, added after the migrations, note each change of a workspace's operation and of a
term. So what is judged is every single write, not what a look every now and then happened to see, and the
times of take-overs are the database's own. If the witness' insert fails, so does the write it is part of:
nothing passes unseen.
"""

from dataclasses import dataclass
from datetime import datetime

from tests.chaos.environment import LEADS, ChaosEnvironment

_INSTALL = """
CREATE TABLE chaos_changes (
  seq bigserial PRIMARY KEY, at timestamptz DEFAULT clock_timestamp(), id uuid,
  old_operation text, operation text, old_op_id uuid, op_id uuid, old_op_seq bigint, op_seq bigint,
  old_version bigint, version bigint, old_deleted boolean, deleted boolean
);
CREATE FUNCTION chaos_note_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO chaos_changes (id, old_operation, operation, old_op_id, op_id, old_op_seq, op_seq,
                             old_version, version, old_deleted, deleted)
  VALUES (NEW.id, OLD.operation, NEW.operation, OLD.op_id, NEW.op_id, OLD.op_seq, NEW.op_seq,
          OLD.version, NEW.version, OLD.deleted_at IS NOT NULL, NEW.deleted_at IS NOT NULL);
  RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos_changes AFTER UPDATE ON workspaces
  FOR EACH ROW WHEN (OLD.operation IS DISTINCT FROM NEW.operation OR OLD.op_id IS DISTINCT FROM NEW.op_id
    OR OLD.op_seq <> NEW.op_seq OR NEW.version <= OLD.version
    OR NEW.deleted_at IS DISTINCT FROM OLD.deleted_at)
  EXECUTE FUNCTION chaos_note_change();
CREATE TABLE chaos_terms (
  seq bigserial PRIMARY KEY, at timestamptz DEFAULT clock_timestamp(), lock_name text, holder_id text,
  old_epoch bigint, epoch bigint
);
CREATE FUNCTION chaos_note_term() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO chaos_terms (lock_name, holder_id, old_epoch, epoch)
  VALUES (NEW.lock_name, NEW.holder_id, OLD.epoch, NEW.epoch);
  RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos_terms AFTER UPDATE ON system_locks
  FOR EACH ROW WHEN (OLD.epoch <> NEW.epoch OR OLD.holder_id <> NEW.holder_id)
  EXECUTE FUNCTION chaos_note_term();
"""

_WRONG = {
    "an operation's number fell or jumped": "op_seq < old_op_seq OR op_seq > old_op_seq + 1",
    "a version did not grow": "version < old_version",
    "an operation replaced another that was in flight": (
        "old_operation <> 'NONE' AND operation <> 'NONE'"
        " AND (op_id <> old_op_id OR operation <> old_operation)"
    ),
    "an operation began without a new number": (
        "old_operation = 'NONE' AND operation <> 'NONE' AND (op_seq = old_op_seq OR op_id = old_op_id)"
    ),
    "an operation has no identity": "operation <> 'NONE' AND op_id IS NULL",
    "a deletion was taken back": "old_deleted AND NOT deleted",
}


@dataclass(frozen=True)
class TakeOver:
    """Seconds since the strike."""

    holder: str
    lock_seconds: float
    act_seconds: float | None  # None: there was nothing to do


async def install(environment: ChaosEnvironment) -> None:
    async with environment.connection() as connection:
        await connection.execute(_INSTALL)


async def problems(environment: ChaosEnvironment) -> list[str]:
    """Whatever was ever written that must never be."""
    found = []
    async with environment.connection() as connection:
        for name, condition in _WRONG.items():
            rows = await connection.fetch(
                f"SELECT * FROM chaos_changes WHERE {condition} ORDER BY seq LIMIT 3"
            )
            found += [f"{name}: {dict(row)}" for row in rows]
        rows = await connection.fetch("SELECT * FROM chaos_terms WHERE epoch <> old_epoch + 1")
        found += [f"a term is not the next one: {dict(row)}" for row in rows]
    return found


async def take_over(environment: ChaosEnvironment, since: datetime) -> TakeOver | None:
    """The first term of the Reconciler begun after ``since``, and the first thing written in it."""
    rows = await environment.rows(
        "SELECT at, holder_id FROM chaos_terms WHERE lock_name = $1 AND at >= $2 ORDER BY seq LIMIT 1",
        LEADS,
        since,
    )
    if not rows:
        return None
    begun = rows[0]["at"]
    acted = await environment.value(
        "SELECT min(at) FROM workspace_events WHERE actor = 'reconciler' AND at >= $1", begun
    )
    return TakeOver(
        holder=rows[0]["holder_id"],
        lock_seconds=(begun - since).total_seconds(),
        act_seconds=(acted - since).total_seconds() if acted else None,
    )


async def now(environment: ChaosEnvironment) -> datetime:
    answer = await environment.value("SELECT clock_timestamp()")
    assert isinstance(answer, datetime)
    return answer
