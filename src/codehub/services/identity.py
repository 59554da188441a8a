"""Resolve a session cookie, API token or SSH key to a person.

Every request does this, so results are cached for 2 s in the process. Ending a session, revoking a token or
disabling a user removes them at once from this process's cache and announces it to the others; a process that
misses the announcement uses its cache for up to 2 s longer. Requests that change something skip the cache
(``fresh=True``).

Secrets are looked up by their SHA-256 and never kept: the cache is keyed by the hash too. Concurrent lookups
are batched into one query that began after each was requested.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from codehub.kit.batching import Batched
from codehub.kit.cache import TtlCache
from codehub.services.actors import Actor
from codehub.store.accounts import sessions, ssh_keys, tokens, users
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
    """A person and their proof: a session, a token, an SSH key, or none if the proxy vouches."""

    user: UserRecord
    session_id: UUID | None = None
    token_id: UUID | None = None
    key_id: UUID | None = None

    @property
    def actor(self) -> Actor:
        return Actor(label_of(self.user), user_id=self.user.id, is_admin=self.user.is_admin)

    @property
    def by_browser(self) -> bool:
        """Whether the browser sent the proof by itself.

        Then another site may have caused the request (CSRF). A proxy that vouches has checked where it came from.
        """
        return self.session_id is not None


def label_of(user: UserRecord) -> str:
    """Return a person's name in the timeline and the audit."""
    return f"user:{user.username}"


class Identities:
    """Finds principals, cached for 2 s.

    ``announce`` publishes to every process that a person's rights have changed; a hint, which may be lost.
    """

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
        # Pays for: one workspace by API, list of 50 by API.
        self._cached: TtlCache[str, Principal] = TtlCache(size=MAX_CACHED, ttl=CACHE_SECONDS)
        # Not for speed: a row written at each request would be locked by the next.
        self._touched: TtlCache[UUID, bool] = TtlCache(size=MAX_CACHED, ttl=TOUCH_SECONDS)
        self._session_lookups: Batched[str, Principal] = Batched(self._load_sessions)
        self._token_lookups: Batched[str, Principal] = Batched(self._load_tokens)
        self._user_lookups: Batched[str, Principal] = Batched(self._load_users)
        self._generation = 0  # raised by ``forget``: what was read before it must not be cached

    async def of_session(self, secret: str, *, fresh: bool = False) -> Principal | None:
        """Find the person of a session cookie; None if it is not valid."""
        return await self._find("s" + hash_secret(secret), self._session_lookups, fresh=fresh)

    async def of_token(self, secret: str, *, fresh: bool = False) -> Principal | None:
        """Find the person of an API token; None if it is not valid."""
        return await self._find("t" + hash_secret(secret), self._token_lookups, fresh=fresh)

    async def of_user(self, user_id: UUID, *, fresh: bool = False) -> Principal | None:
        """Find an enabled user by id, for a caller that has authenticated them."""
        return await self._find(f"u{user_id}", self._user_lookups, fresh=fresh)

    async def of_ssh_key(self, fingerprint: str) -> Principal | None:
        """Find the person of a public key. Whoever calls this verifies the signature. Not cached: sign-ins are rare."""
        async with self._reading() as session:
            found = await ssh_keys.find_valid(session, fingerprint)
        return Principal(found[1], key_id=found[0].id) if found is not None else None

    async def record_ssh_key_use(self, key_id: UUID) -> None:
        """Record that somebody signed in by this key."""
        if self._is_due(key_id):
            async with self._sessions.begin() as session:
                await ssh_keys.touch(session, key_id)

    async def changed(self, user_id: UUID) -> None:
        """Invalidate this person's cache entries in every process.

        Call it after a change of session, token, role or password is committed.
        """
        self.forget(user_id)
        if self._announce is not None:
            await self._announce(user_id)

    def forget(self, user_id: UUID) -> None:
        """Drop this process's cache entries of a person, lookups in flight included."""
        self._generation += 1
        self._cached.forget_where(lambda principal: principal.user.id == user_id)

    async def ended(self, principals: Collection[Principal]) -> set[Principal]:
        """Return which of these principals are no longer valid.

        Two to four queries however many there are.
        """
        session_ids = {each.session_id for each in principals if each.session_id is not None}
        token_ids = {each.token_id for each in principals if each.token_id is not None}
        key_ids = {each.key_id for each in principals if each.key_id is not None}
        user_ids = {each.user.id for each in principals}
        async with self._reading() as session:
            valid: set[UUID] = set()
            if session_ids:
                valid |= await sessions.find_valid_ids(session, session_ids)
            if token_ids:
                valid |= await tokens.find_valid_ids(session, token_ids)
            if key_ids:
                valid |= await ssh_keys.find_valid_ids(session, key_ids)
            enabled = await users.find_enabled_ids(session, user_ids)
        return {
            each
            for each in principals
            if each.user.id not in enabled
            or (each.session_id is not None and each.session_id not in valid)
            or (each.token_id is not None and each.token_id not in valid)
            or (each.key_id is not None and each.key_id not in valid)
        }

    async def session_has_ended(self, session_id: UUID) -> bool:
        async with self._reading() as session:
            return session_id not in await sessions.find_valid_ids(session, {session_id})

    async def _find(self, key: str, lookups: Batched[str, Principal], *, fresh: bool) -> Principal | None:
        cached = None if fresh else self._cached.get(key)
        if cached is not None:
            return cached
        generation = self._generation
        principal = await lookups.get(key[1:])
        if principal is None:
            self._cached.forget(key)
            return None
        if generation == self._generation:
            self._cached.put(key, principal)
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
        """Return whether to record the use again: every 300 s, by this process's clock."""
        if self._touched.get(id_):
            return False
        self._touched.put(id_, True)
        return True
