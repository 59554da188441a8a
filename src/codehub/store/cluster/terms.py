"""Terms of leadership: each coordinator's leader and the epoch that fences it.

The advisory lock elects; it cannot fence, because a leader that lost its session may not know yet. So
acquiring raises ``epoch``, and each tick's transaction first reads the row with its own epoch FOR SHARE.
While that transaction is open a successor waits at ``acquire_term``; after the successor's commit, the old
epoch matches no row and the old leader writes nothing. The share lock of a leader that dies inside a tick
ends with its session.

A row outlives its leader. ``read_terms`` therefore returns for each whether its advisory lock is held at this
moment: people are shown leaders from there, not from the memory of the replica that answers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, Text, bindparam, func, literal_column, or_, select, text, update
from sqlalchemy.dialects.postgresql import JSONB, insert

from codehub.store.db.context import ACTING
from codehub.store.db.session import Session
from codehub.store.schema.tables import system_locks as locks


@dataclass(frozen=True)
class Term:
    """One row of system_locks."""

    lock_name: str
    holder_id: str
    acquired_at: datetime
    epoch: int
    last_tick_at: datetime | None
    detail: Mapping[str, Any]
    is_held: bool = True

    @property
    def coordinator(self) -> str:
        """The coordinator's short name.

        ``wc`` of ``coordinator:wc`` and of ``blue:coordinator:wc``.
        """
        return self.lock_name.rpartition("coordinator:")[2]

    @property
    def last_error(self) -> str | None:
        """The error of the leader's last tick; None if that succeeded."""
        return self.detail.get(LAST_ERROR)


LAST_ERROR = "last_error"
LONGEST_ERROR = 500

_COLUMNS = (
    locks.c.lock_name,
    locks.c.holder_id,
    locks.c.acquired_at,
    locks.c.epoch,
    locks.c.last_tick_at,
    locks.c.detail,
)


# Sent with every tick and every write of a leader, hence built once.
_MINE = locks.c.lock_name == bindparam("name")
_HOLD = (
    select(func.clock_timestamp(), ACTING)
    .select_from(locks)
    .where(_MINE, locks.c.epoch == bindparam("held"))
    .with_for_update(read=True)
)
_RECORD_ERROR = (
    update(locks)
    .where(_MINE)
    .values(
        detail=locks.c.detail.concat(func.jsonb_build_object(LAST_ERROR, bindparam("error", type_=Text())))
    )
)

# The key of a lock is the head of its name's SHA-256 (``coordinators/leadership.lock_key``), so the server
# can compute from the name alone whether the lock is held.
_IS_HELD = literal_column(
    """EXISTS (
  SELECT FROM pg_locks, (SELECT encode(sha256(convert_to(lock_name, 'UTF8')), 'hex') AS hash) named
  WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = (('x' || substr(hash, 1, 8))::bit(32)::bigint & 4294967295)::oid
    AND objid = (('x' || substr(hash, 9, 8))::bit(32)::bigint & 4294967295)::oid
    AND objsubid = 1 AND granted
)""",
    type_=Boolean(),
).label("is_held")
_TERMS = select(*_COLUMNS, _IS_HELD)
_LAST_TICK = select(locks.c.last_tick_at).where(_MINE)
_NEW_DETAIL = bindparam("new_detail", type_=JSONB())
_RECORD_TICK = (
    update(locks)
    .where(
        _MINE,
        or_(
            locks.c.last_tick_at.is_(None),
            locks.c.last_tick_at < func.clock_timestamp() - text("interval '1 second'"),
            locks.c.detail != _NEW_DETAIL,
        ),
    )
    .values(last_tick_at=func.clock_timestamp(), detail=_NEW_DETAIL)
)


async def acquire_term(session: Session, lock_name: str, holder_id: str) -> Term:
    """Begin a term: raise the epoch and become its holder.

    The caller holds the advisory lock, and commits. A process that dies before the commit leaves the old
    term.
    """
    statement = insert(locks).values(lock_name=lock_name, holder_id=holder_id, epoch=1)
    statement = statement.on_conflict_do_update(
        index_elements=[locks.c.lock_name],
        set_={
            "holder_id": statement.excluded.holder_id,
            "acquired_at": func.clock_timestamp(),
            "epoch": locks.c.epoch + 1,
            "detail": locks.c.detail.op("-")(LAST_ERROR),  # the predecessor's
        },
    )
    return Term(*(await session.execute(statement.returning(*_COLUMNS))).one())


async def hold_term(session: Session, lock_name: str, epoch: int, *, actor: str = "") -> datetime | None:
    """Lock this term until the transaction ends and return the database's time.

    None: another term has begun. The changes in the transaction are recorded as ``actor``'s
    (``store/db/context``).
    """
    params = {"name": lock_name, "held": epoch, "actor": actor}
    return (await session.execute(_HOLD, params)).scalars().first()


async def record_tick(session: Session, lock_name: str, *, detail: Mapping[str, Any]) -> None:
    """Record a finished tick.

    Written at most once a second, or when ``detail`` changes.
    """
    await session.execute(_RECORD_TICK, {"name": lock_name, "new_detail": detail})


async def record_error(session: Session, lock_name: str, error: str) -> None:
    """Record the error of a failed tick. The next ``record_tick`` clears it."""
    await session.execute(_RECORD_ERROR, {"name": lock_name, "error": error[:LONGEST_ERROR]})


async def last_tick_at(session: Session, lock_name: str) -> datetime | None:
    """Return when the leader last finished a tick; None if never."""
    at: datetime | None = (await session.execute(_LAST_TICK, {"name": lock_name})).scalar_one_or_none()
    return at


async def read_terms(session: Session) -> dict[str, Term]:
    """Read every term, by lock name, for people."""
    return {row.lock_name: Term(*row) for row in await session.execute(_TERMS)}


def rivals_of(lock_name: str, terms: Iterable[Term]) -> list[Term]:
    """Return leaders of the same coordinator under another COORDINATOR_LOCK_ID.

    All rows are of one schema, hence of one installation: two such leaders both write the same workspaces,
    and neither's term fences the other.
    """
    coordinator = lock_name.rpartition("coordinator:")[2]
    return sorted(
        (
            each
            for each in terms
            if each.is_held and each.coordinator == coordinator and each.lock_name != lock_name
        ),
        key=lambda each: each.lock_name,
    )
