"""Sign in to a workspace's own origin: one-time codes, exchanged for cookies."""

import base64
import hmac
import json
import secrets
import time
from uuid import UUID

from codehub.proxy.interfaces import Principal
from codehub.signals.connection import RedisLink, RedisUnavailable
from codehub.signals.outage import Outage

CODE_SECONDS = 30


class SignedSignIn:
    """Issues one-time codes and workspace cookies.

    Signed with the installation's secret. Only used codes are stored, so that each works once: in Redis,
    and in this process while Redis is away.
    """

    def __init__(self, secret: bytes, redis: RedisLink) -> None:
        self._secret = secret
        self._redis = redis
        self._outage = Outage("sign-in codes")
        self._used: dict[str, float] = {}

    async def issue_code(self, principal: Principal, workspace_id: UUID) -> str:
        claim = {
            "u": str(principal.user_id),
            "s": str(principal.session_id) if principal.session_id else None,
            "w": str(workspace_id),
            "e": int(time.time()) + CODE_SECONDS,
            "n": secrets.token_hex(16),
        }
        return self._seal("code", json.dumps(claim))

    async def redeem_code(self, code: str, workspace_id: UUID) -> str | None:
        claim = self._open("code", code)
        if claim is None:
            return None
        content = json.loads(claim)
        if content["w"] != str(workspace_id) or content["e"] < time.time():
            return None
        if not await self._first_use(content["n"]):
            return None
        return self._seal("cookie", json.dumps({key: content[key] for key in ("u", "s", "w")}))

    def read_cookie(self, value: str, workspace_id: UUID) -> tuple[UUID, UUID | None] | None:
        """User and session of a cookie; None: not ours, or of another workspace."""
        claim = self._open("cookie", value)
        if claim is None:
            return None
        content = json.loads(claim)
        if content["w"] != str(workspace_id):
            return None
        return UUID(content["u"]), UUID(content["s"]) if content["s"] else None

    async def _first_use(self, nonce: str) -> bool:
        now = time.monotonic()
        self._used = {each: at for each, at in self._used.items() if now - at < 2 * CODE_SECONDS}
        if nonce in self._used:
            return False
        self._used[nonce] = now
        try:
            async with self._redis.bounded(self._outage) as client:
                taken = await client.set(f"codehub:code:{nonce}", b"1", nx=True, ex=2 * CODE_SECONDS)
        except RedisUnavailable:
            return True
        return bool(taken)

    def _seal(self, purpose: str, claim: str) -> str:
        body = base64.urlsafe_b64encode(claim.encode()).decode().rstrip("=")
        return f"{body}.{self._signature(purpose, body)}"

    def _open(self, purpose: str, sealed: str) -> str | None:
        body, _, signature = sealed.partition(".")
        expected = self._signature(purpose, body)
        if not hmac.compare_digest(signature.encode("latin-1", "replace"), expected.encode()):
            return None
        return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()

    def _signature(self, purpose: str, body: str) -> str:
        return hmac.digest(self._secret, f"{purpose}:{body}".encode(), "sha256").hex()
