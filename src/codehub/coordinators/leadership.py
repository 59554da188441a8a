"""Leader election: a session advisory lock and a term, on the writing connection.

Each coordinator type has one leader in the cluster. The lock and the transactions live on the *same*
connection (never on a pool): when it dies, PostgreSQL frees the lock and rolls back the transaction
together, so there is no moment in which a leader has lost one and keeps the other.

Three checks stop a leader that does not know it has been replaced:

- the **term**: acquiring raises ``epoch`` in ``system_locks``, and every transaction begins by reading
  that row with its own epoch ``FOR SHARE``; a single statement does so by itself (``store/db/fencing``). No
  row: not leader, nothing is written. This also catches a client library that silently hands out a new
  session without the lock;
- the **backend pid** is remembered, and a connection that saw any error, time-out or cancellation is
  discarded, never repaired;
- the **verification age**: before each side effect outside the database the leader checks how long ago it
  last found its lock in ``pg_locks``. A process resumed after a long freeze finds that too long ago.

If the process dies anywhere in here, the server notices the closed socket and frees the lock; the session of a
frozen one is ended by ``idle_session_timeout``, ten seconds after its last statement. A healthy leader
verifies more often than that. A verification counts for no longer than its session may be silent: before that
the server cannot have given the lock to another session.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from codehub.coordinators.control_store import Connector, TermStore
from codehub.domain.errors import CodeHubError
from codehub.kit.clock import boottime
from codehub.store.db.connections import IDLE_SESSION_SECONDS
from codehub.store.db.fencing import Fence, FencedSession
from codehub.store.db.session import Connection, Session
from codehub.store.errors import DATABASE_FAILED, TermOver

log = structlog.get_logger(__name__)

LOCK_CALL_SECONDS = 5.0
VERIFY_SECONDS = 2.0
LONGEST_VERIFICATION_AGE_SECONDS = 15.0
VERIFICATIONS_IN_A_SILENCE = 2.5

_VERIFY = """
SELECT EXISTS (
  SELECT FROM pg_locks
  WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = (($1::bigint >> 32) & 4294967295)::oid AND objid = ($1::bigint & 4294967295)::oid
    AND objsubid = 1 AND pid = pg_backend_pid() AND granted
) AND pg_backend_pid() = $2
"""

# A lock_timeout is expected here. Unless it is caught, the server logs an error for every coordinator of every
# waiting replica, every five seconds. A DO block takes no parameters: it reads the
# key from a setting of the session, which _SET_KEY sets with a parameter.
_SET_KEY = "SELECT set_config('codehub.lock_key', $1, false)"
_WAIT = """
DO $$ BEGIN
  PERFORM pg_advisory_lock(current_setting('codehub.lock_key')::bigint);
EXCEPTION WHEN lock_not_available THEN
  NULL;
END $$
"""


class LeadershipLost(CodeHubError):
    """This process does not lead (any more); its work is the current leader's now."""

    code = "leadership_lost"


class PooledConnection(CodeHubError):
    """DATABASE_URL leads through a connection pooler, which cannot carry session locks. Point it, at
    least for the coordinators, straight at PostgreSQL."""

    code = "pooled_connection"


def lock_key(name: str) -> int:
    """The advisory lock's 64-bit key: the first eight bytes of SHA-256, signed."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


def lock_name(coordinator: str, *, lock_id: str | None = None) -> str:
    """Name of a coordinator's lock: ``coordinator:wc``.

    With a lock id ``{lock_id}:coordinator:wc``, for two installations that share a database.
    """
    return f"{lock_id}:coordinator:{coordinator}" if lock_id else f"coordinator:{coordinator}"


def session_idle_seconds(verify_seconds: float) -> float:
    """How long the lock's session may be silent before the server ends it.

    The next process in the queue leads then. Ten seconds; longer only where a leader verifies so rarely that
    a healthy session would be ended.
    """
    return max(float(IDLE_SESSION_SECONDS), VERIFICATIONS_IN_A_SILENCE * verify_seconds)


@dataclass(frozen=True)
class Term:
    """One stretch of leading, numbered by its epoch."""

    epoch: int
    backend_pid: int
    acquired_at: datetime


class Leadership:
    """Acquires and verifies leadership, and gives out fenced transactions.

    The connection serves one task at a time (``_turn``): the loop's tick, the verification beside it and
    the write-back of an action that ended take turns, each for the length of one short transaction.
    """

    def __init__(
        self,
        *,
        store: TermStore,
        connector: Connector,
        name: str,
        holder_id: str,
        idle_seconds: float = IDLE_SESSION_SECONDS,
    ) -> None:
        """``idle_seconds``: the server ends the connector's sessions after this long a silence."""
        self._max_age = min(idle_seconds, LONGEST_VERIFICATION_AGE_SECONDS)
        self._store = store
        self._connector = connector
        self._name = name
        self._key = lock_key(name)
        self._holder_id = holder_id
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._verified_at = float("-inf")
        self.term: Term | None = None
        self.now = datetime.min.replace(tzinfo=UTC)
        self.lost = asyncio.Event()
        self.lost_by: BaseException | None = None  # what ended the last term, if known

    @property
    def is_leader(self) -> bool:
        return self.term is not None

    @property
    def name(self) -> str:
        return self._name

    @property
    def epoch(self) -> int:
        if self.term is None:
            raise LeadershipLost
        return self.term.epoch

    async def acquire(self) -> Term:
        """Wait in the server's lock queue until this process leads. Idempotent.

        Raises if the database is away.

        A standby takes over as soon as the leader's session ends: the server itself gives it the lock. The
        wait is interrupted every five seconds, because a blocked lock call holds back vacuum.
        """
        if self.term is not None:  # advisory locks nest: asking again would need two unlocks
            return self.term
        try:
            raw = self._connection = await self._connector.connect()
            backend_pid = await self._check_session(raw)
            while not await self._try_lock(raw):
                pass
            self.term = await self._begin_term(backend_pid)
        except BaseException:
            await self.discard()
            raise
        self.lost.clear()
        self.lost_by = None
        self._verified_at = boottime()
        self.now = self.term.acquired_at
        return self.term

    async def verify(self) -> None:
        """Check in pg_locks that this backend holds the lock. Raises ``LeadershipLost``."""
        async with self._turn:
            term = self._require_term()
            asked_at = boottime()
            try:
                held = await self._raw().fetchval(
                    _VERIFY, self._key, term.backend_pid, timeout=VERIFY_SECONDS
                )
            except BaseException as error:
                await self.discard()
                self.lost_by = error
                if isinstance(error, Exception):
                    raise LeadershipLost(f"could not verify: {type(error).__name__}: {error}") from error
                raise
            if not held:
                await self.discard()
                raise LeadershipLost("the lock is not held by this session")
            self._verified_at = asked_at

    async def database_time(self) -> datetime:
        """Read the database's time, in one round trip and outside any transaction.

        Not fenced: reading the time changes nothing.
        """
        async with self._in_turn():
            now = await self._raw().fetchval("SELECT clock_timestamp()", timeout=VERIFY_SECONDS)
        assert isinstance(now, datetime)
        return now

    def assert_recent(self) -> None:
        """Raise unless leadership was verified recently. Call right before a side effect."""
        age = boottime() - self._verified_at
        if self.term is None or age > self._max_age:
            raise LeadershipLost(f"last verified {age:.0f} s ago")

    @asynccontextmanager
    async def transaction(self, *, actor: str = "") -> AsyncIterator[Session]:
        """Open a transaction that commits only while this term lasts. Fenced.

        Sets ``now`` to the database's time in it. An exception of the caller's own rolls back and leaves the
        connection usable; anything that leaves the state of the session unknown (a database error, a
        cancellation) discards it, and with it the lock.
        """
        async with self._in_turn() as term, self._begin() as session:
            now = await self._store.hold_term(session, self._name, term.epoch, actor=actor)
            if now is None:
                raise LeadershipLost("another term has begun")
            self.now = now
            yield session

    @asynccontextmanager
    async def statement(self, *, actor: str = "") -> AsyncIterator[FencedSession]:
        """Open a session for one statement: one round trip, its own transaction. Fenced."""
        async with (
            self._in_turn() as term,
            self._store.fenced_session_on(self._raw(), Fence(self._name, term.epoch, actor)) as session,
        ):
            yield session

    async def release(self) -> None:
        """Release the lock at once: the next leader begins before this process ends."""
        if self.term is not None and self._connection is not None:
            with suppress(Exception):
                async with asyncio.timeout(VERIFY_SECONDS), self._turn:
                    await self._raw().execute("SELECT pg_advisory_unlock_all()", timeout=VERIFY_SECONDS)
        await self.discard()

    async def discard(self) -> None:
        """Drop the connection without a graceful close, which may hang on the same fault."""
        connection, self._connection = self._connection, None
        self.term = None
        self._verified_at = float("-inf")
        self.lost.set()
        if connection is None:
            return
        with suppress(Exception):
            connection.terminate()

    @asynccontextmanager
    async def raw_connection(self) -> AsyncIterator[Connection]:
        """Lend the driver's connection, for LISTEN. Never begin a transaction on it."""
        async with self._turn:
            self._require_term()
            yield self._raw()

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[Term]:
        """Hold the connection alone; discard it on anything that leaves its state unknown."""
        async with self._turn:
            term = self._require_term()
            try:
                yield term
            except (*DATABASE_FAILED, asyncio.CancelledError, LeadershipLost, TermOver) as error:
                await self.discard()
                self.lost_by = error
                match error:
                    case asyncio.CancelledError() | LeadershipLost():
                        raise
                    case TermOver():
                        raise LeadershipLost(str(error)) from error
                    case _:
                        raise LeadershipLost(f"the connection failed: {type(error).__name__}") from error

    def _require_term(self) -> Term:
        if self.term is None:
            raise LeadershipLost
        return self.term

    @asynccontextmanager
    async def _begin(self) -> AsyncIterator[Session]:
        """Begin on this connection, never on one of a pool: that would be another session (decision 0005)."""
        async with self._store.session_on(self._raw()) as session, session.begin():
            yield session

    def _raw(self) -> Connection:
        # Lock calls go to the driver itself: a bare SELECT needs no transaction, and none may stay open.
        assert self._connection is not None
        return self._connection

    async def _check_session(self, raw: Connection) -> int:
        """Raise unless this is a primary, reached without a pooler; returns the backend's pid."""
        if await raw.fetchval("SELECT pg_is_in_recovery()", timeout=LOCK_CALL_SECONDS):
            raise LeadershipLost("this is a hot standby: it grants advisory locks that exclude nobody")
        first = await raw.fetchval("SELECT pg_backend_pid()", timeout=LOCK_CALL_SECONDS)
        second = await raw.fetchval("SELECT pg_backend_pid()", timeout=LOCK_CALL_SECONDS)
        if not first == second == raw.get_server_pid():
            raise PooledConnection(PooledConnection.__doc__)
        await raw.execute(f"SET lock_timeout = '{LOCK_CALL_SECONDS:.0f}s'", timeout=LOCK_CALL_SECONDS)
        return int(first)

    async def _try_lock(self, raw: Connection) -> bool:
        if await raw.fetchval("SELECT pg_try_advisory_lock($1)", self._key, timeout=LOCK_CALL_SECONDS):
            return True
        await raw.fetchval(_SET_KEY, str(self._key), timeout=LOCK_CALL_SECONDS)
        await raw.execute(_WAIT, timeout=LOCK_CALL_SECONDS * 2)
        held = await raw.fetchval(_VERIFY, self._key, raw.get_server_pid(), timeout=LOCK_CALL_SECONDS)
        return bool(held)

    async def _begin_term(self, backend_pid: int) -> Term:
        """Begin a term under the held lock. A crash in between leaves none: the next leader begins one."""
        async with self._begin() as session:
            begun = await self._store.acquire_term(session, self._name, self._holder_id)
        log.info("leadership acquired", lock=self._name, epoch=begun.epoch)
        return Term(epoch=begun.epoch, backend_pid=backend_pid, acquired_at=begun.acquired_at)
