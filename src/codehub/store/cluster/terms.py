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

from sqlalchemy import Boolean, Text, bindparam, func, literal_column, or_, text, true, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlmodel import col, select

from codehub.store.db.context import ACTING
from codehub.store.db.records import record
from codehub.store.db.session import Session
from codehub.store.db.statements import clock
from codehub.store.schema.tables import SystemLock
from codehub.store.schema.tables import system_locks as locks


@dataclass(frozen=True)
class TermRow:
    """One row of system_locks."""

    lock_name: str
    holder_id: str
    acquired_at: datetime
    epoch: int
    last_tick_at: datetime | None
    detail: Mapping[str, object]
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
        error = self.detail.get(LAST_ERROR)
        return error if isinstance(error, str) else None

    @property
    def away(self) -> Mapping[str, object]:
        """The engines that are away, as the Reconciler's leader wrote it."""
        away = self.detail.get("away")
        return away if isinstance(away, dict) else {}

    def paths(self, key: str) -> list[str]:
        """Return a list of paths the leader wrote under this key."""
        found = self.detail.get(key)
        return [str(path) for path in found] if isinstance(found, list | tuple) else []


LAST_ERROR = "last_error"
LONGEST_ERROR = 500

_ACQUIRED = record(TermRow, SystemLock, is_held=true())

# Sent with every tick and every write of a leader, hence built once.
_MINE = col(SystemLock.lock_name) == bindparam("name")
_HOLD = (
    select(clock(), ACTING)
    .select_from(locks)
    .where(_MINE, col(SystemLock.epoch) == bindparam("held"))
    .with_for_update(read=True)
)
_RECORD_ERROR = (
    update(locks)
    .where(_MINE)
    .values(
        detail=col(SystemLock.detail).concat(
            func.jsonb_build_object(LAST_ERROR, bindparam("error", type_=Text()))
        )
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
)
_TERMS = select(record(TermRow, SystemLock, is_held=_IS_HELD))
_LAST_TICK = select(col(SystemLock.last_tick_at)).where(_MINE)
_NEW_DETAIL = bindparam("new_detail", type_=JSONB())
_RECORD_TICK = (
    update(locks)
    .where(
        _MINE,
        or_(
            col(SystemLock.last_tick_at).is_(None),
            col(SystemLock.last_tick_at) < clock() - text("interval '1 second'"),
            col(SystemLock.detail) != _NEW_DETAIL,
        ),
    )
    .values(last_tick_at=clock(), detail=_NEW_DETAIL)
)


async def acquire_term(session: Session, lock_name: str, holder_id: str) -> TermRow:
    """Begin a term: raise the epoch and become its holder.

    The caller holds the advisory lock, and commits. A process that dies before the commit leaves the old
    term.
    """
    statement = insert(locks).values(lock_name=lock_name, holder_id=holder_id, epoch=1)
    statement = statement.on_conflict_do_update(
        index_elements=["lock_name"],
        set_={
            "holder_id": statement.excluded.holder_id,
            "acquired_at": clock(),
            "epoch": col(SystemLock.epoch) + 1,
            "detail": col(SystemLock.detail).op("-")(LAST_ERROR),  # the predecessor's
        },
    )
    (term,) = (await session.exec(statement.returning(_ACQUIRED))).one()
    return term


async def hold_term(session: Session, lock_name: str, epoch: int, *, actor: str = "") -> datetime | None:
    """Lock this term until the transaction ends and return the database's time.

    None: another term has begun. The changes in the transaction are recorded as ``actor``'s
    (``store/db/context``).
    """
    params = {"name": lock_name, "held": epoch, "actor": actor}
    held = (await session.exec(_HOLD, params)).first()
    return held[0] if held is not None else None


async def record_tick(session: Session, lock_name: str, *, detail: Mapping[str, object]) -> None:
    """Record a finished tick.

    Written at most once a second, or when ``detail`` changes.
    """
    await session.exec(_RECORD_TICK, {"name": lock_name, "new_detail": detail})


async def record_error(session: Session, lock_name: str, error: str) -> None:
    """Record the error of a failed tick. The next ``record_tick`` clears it."""
    await session.exec(_RECORD_ERROR, {"name": lock_name, "error": error[:LONGEST_ERROR]})


async def last_tick_at(session: Session, lock_name: str) -> datetime | None:
    """Return when the leader last finished a tick; None if never."""
    return (await session.exec(_LAST_TICK, {"name": lock_name})).one_or_none()


async def read_terms(session: Session) -> dict[str, TermRow]:
    """Read every term, by lock name, for people."""
    return {term.lock_name: term for term in await session.exec(_TERMS)}


def rivals_of(lock_name: str, terms: Iterable[TermRow]) -> list[TermRow]:
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
