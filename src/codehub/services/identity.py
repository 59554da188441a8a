"""Who is asking: a session cookie or a token becomes a person.

Every request asks this, so answers are remembered for two seconds in the process. Ending a session,
revoking a token or disabling a person forgets them at once in this process and announces it to the others;
one that does not hear of it may believe for those two seconds longer. Requests that change something never
believe the memory (``fresh=True``).

Secrets are looked up by their SHA-256 and never kept: the memory is keyed by the hash too. Those that are
asked for in the same moment are looked up together, by a query that began after each was asked.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from codehub.kit.batching import Batched
from codehub.kit.cache import TtlCache
from codehub.services.workspaces import Actor
from codehub.store.accounts import sessions, tokens, users
from codehub.store.accounts.secrets import hash_secret
from codehub.store.accounts.users import UserRecord
from codehub.store.db.session import Sessions

IDLE = timedelta(days=14)
ABSOLUTE = timedelta(days=90)
TOKEN_PREFIX = "chp_"

CACHE_SECONDS = 2.0
TOUCH_SECONDS = 300.0
MAX_CACHED = 10_000


@dataclass(frozen=True)
class Principal:
    """A person, and what they showed: a session, a token, or the proxy's word (neither)."""

    user: UserRecord
    session_id: UUID | None = None
    token_id: UUID | None = None

    @property
    def actor(self) -> Actor:
        return Actor(label_of(self.user), user_id=self.user.id, is_admin=self.user.is_admin)

    @property
    def by_browser(self) -> bool:
        """Whether the browser sent the proof by itself, so that another site may have made it do so."""
        return self.token_id is None


def label_of(user: UserRecord) -> str:
    """How the timeline and the audit name a person."""
    return f"user:{user.username}"


class Identities:
    """``announce``: tells every process that this person's rights have changed; a hint, which may be lost."""

    def __init__(
        self,
        sessions_: Sessions,
        *,
        reading: Sessions,
        announce: Callable[[UUID], Awaitable[bool]] | None = None,
    ) -> None:
        self._announce = announce
        self._sessions = sessions_
        self._reading = reading
        self._known: TtlCache[str, Principal] = TtlCache(size=MAX_CACHED, ttl=CACHE_SECONDS)
        self._touched: TtlCache[UUID, bool] = TtlCache(size=MAX_CACHED, ttl=TOUCH_SECONDS)
        self._asking_sessions: Batched[str, Principal] = Batched(self._load_sessions)
        self._asking_tokens: Batched[str, Principal] = Batched(self._load_tokens)
        self._asking_users: Batched[str, Principal] = Batched(self._load_users)
        self._forgotten = 0  # raised with each forgetting: what was read before must not be remembered

    async def of_session(self, secret: str, *, fresh: bool = False) -> Principal | None:
        return await self._find("s" + hash_secret(secret), self._asking_sessions, fresh=fresh)

    async def of_token(self, secret: str, *, fresh: bool = False) -> Principal | None:
        return await self._find("t" + hash_secret(secret), self._asking_tokens, fresh=fresh)

    async def of_user(self, user_id: UUID, *, fresh: bool = False) -> Principal | None:
        """A person somebody trusted vouches for."""
        return await self._find(f"u{user_id}", self._asking_users, fresh=fresh)

    async def changed(self, user_id: UUID) -> None:
        """A session, a token, the role or the password of this person was changed, and that is committed."""
        self.forget(user_id)
        if self._announce is not None:
            await self._announce(user_id)

    def forget(self, user_id: UUID) -> None:
        """Believe nothing that was read about this person before."""
        self._forgotten += 1
        self._known.forget_where(lambda principal: principal.user.id == user_id)

    async def ended(self, principals: Collection[Principal]) -> set[Principal]:
        """Which of these count no more. Two or three queries however many there are."""
        session_ids = {each.session_id for each in principals if each.session_id is not None}
        token_ids = {each.token_id for each in principals if each.token_id is not None}
        user_ids = {each.user.id for each in principals}
        async with self._reading() as session:
            valid: set[UUID] = set()
            if session_ids:
                valid |= await sessions.find_valid_ids(session, session_ids)
            if token_ids:
                valid |= await tokens.find_valid_ids(session, token_ids)
            enabled = await users.find_enabled_ids(session, user_ids)
        return {
            each
            for each in principals
            if each.user.id not in enabled
            or (each.session_id is not None and each.session_id not in valid)
            or (each.token_id is not None and each.token_id not in valid)
        }

    async def session_has_ended(self, session_id: UUID) -> bool:
        async with self._reading() as session:
            return session_id not in await sessions.find_valid_ids(session, {session_id})

    async def _find(self, key: str, asking: Batched[str, Principal], *, fresh: bool) -> Principal | None:
        known = None if fresh else self._known.get(key)
        if known is not None:
            return known
        generation = self._forgotten
        principal = await asking.get(key[1:])
        if principal is None:
            self._known.forget(key)
            return None
        if generation == self._forgotten:
            self._known.put(key, principal)
        return principal

    async def _load_sessions(self, hashes: Sequence[str]) -> Mapping[str, Principal]:
        async with self._reading() as session:
            found = await sessions.find_all_valid(session, hashes)
        due = [each.session_id for each in found.values() if self._is_due(each.session_id)]
        if due:
            async with self._sessions.begin() as session:
                for session_id in sorted(due):
                    await sessions.touch(session, session_id, idle=IDLE)
        return {
            secret_hash: Principal(each.user, session_id=each.session_id)
            for secret_hash, each in found.items()
        }

    async def _load_tokens(self, hashes: Sequence[str]) -> Mapping[str, Principal]:
        async with self._reading() as session:
            found = await tokens.find_all_valid(session, hashes)
        due = [token.id for token, _ in found.values() if self._is_due(token.id)]
        if due:
            async with self._sessions.begin() as session:
                for token_id in sorted(due):
                    await tokens.touch(session, token_id)
        return {
            secret_hash: Principal(user, token_id=token.id) for secret_hash, (token, user) in found.items()
        }

    async def _load_users(self, ids: Sequence[str]) -> Mapping[str, Principal]:
        async with self._reading() as session:
            found = await users.find_many(session, [UUID(each) for each in ids])
        return {str(user.id): Principal(user) for user in found.values() if user.disabled_at is None}

    def _is_due(self, id_: UUID) -> bool:
        """Whether its use should be written down again: coarsely, by this process's own clock."""
        if self._touched.get(id_):
            return False
        self._touched.put(id_, True)
        return True
