"""Who a request says it is, and what of that a workspace may see: nothing.

CodeHub's cookies are cut out of ``Cookie`` and its tokens out of ``Authorization`` before a request goes
to a workspace; what the workspace's own pages set passes through. In the other direction the proxy tells
the API who somebody is with a signed header, needed where the dashboard's cookie does not reach (a
workspace's own origin). Clients cannot send it: every ``X-CodeHub-*`` field of theirs is dropped.
"""

import hmac
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes
from uuid import UUID

from codehub.domain.states import Role
from codehub.proxy.interfaces import Credential, CredentialKind, Principal

TOKEN_PREFIX: Final = b"chp_"
PRINCIPAL_HEADER: Final = "X-CodeHub-Principal"
PRINCIPAL_LIFETIME: Final = 30.0

_OWN_COOKIE: Final = re.compile(rb"(?:__(?:host|secure)-)?codehub_", re.IGNORECASE)
# As a lenient reader may take it: quoted, percent-encoded, with other marks for the underscore.
_LIKE_OWN_COOKIE: Final = re.compile(
    rb"[^a-z0-9]*(?:(?:host|secure)[^a-z0-9]+)?codehub[^a-z0-9=]", re.IGNORECASE
)
_BEARER: Final = re.compile(rb"bearer[ \t]+(chp_[\x21-\x7e]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CookieNames:
    """Over HTTPS only ``__Host-`` names count: a sibling domain cannot plant those."""

    session: bytes
    workspace: bytes

    @classmethod
    def of(cls, *, secure: bool) -> "CookieNames":
        prefix = b"__Host-" if secure else b""
        return cls(session=prefix + b"codehub_session", workspace=prefix + b"codehub_ws")


class Identity:
    """Raw ``Cookie`` and ``Authorization`` of a request, taken apart once per connection."""

    __slots__ = ("authorization", "cookie", "credential", "key")

    def __init__(self, credential: Credential | None, cookie: bytes, authorization: bytes) -> None:
        self.credential = credential
        self.cookie = cookie  # what may go to a workspace
        self.authorization = authorization
        self.key = "" if credential is None else _key(credential)

    @property
    def by_token(self) -> bool:
        """A program's: browsers never send one by themselves."""
        return self.credential is not None and self.credential.kind is CredentialKind.TOKEN


def identify(
    cookie: bytes | None,
    authorization: bytes | None,
    *,
    names: CookieNames,
    on_workspace_host: bool,
    workspace_id: UUID | None,
) -> Identity:
    """At a workspace's own origin only that workspace's cookie counts, elsewhere only the session's."""
    token = _BEARER.fullmatch(authorization) if authorization else None
    clean, found = _take_cookies(cookie or b"", names.workspace if on_workspace_host else names.session)
    credential: Credential | None = None
    if token is not None:
        credential = Credential(CredentialKind.TOKEN, token[1].decode())
    elif found is not None and not on_workspace_host:
        credential = Credential(CredentialKind.SESSION, found.decode("latin-1"))
    elif found is not None and workspace_id is not None:
        credential = Credential(CredentialKind.WORKSPACE, found.decode("latin-1"), workspace_id)
    return Identity(credential, clean, b"" if token else authorization or b"")


def is_codehub_cookie(name: bytes) -> bool:
    return _OWN_COOKIE.match(name) is not None


def may_be_read_as_own_cookie(pair: bytes) -> bool:
    """Whether ``name=value`` of a Set-Cookie could come back as one of CodeHub's cookies, to any reader.

    A cookie without a name comes back as its bare value, ``=codehub_ws=x`` as ``codehub_ws=x``. Some readers
    end a cookie at a comma, decode its name or take more for white space than a browser does.
    """
    name, separator, _ = pair.partition(b"=")
    if not separator or not name.strip(b" \t"):
        return True
    return any(_LIKE_OWN_COOKIE.match(_unquoted(part)) for part in pair.split(b",") if b"=" in part)


def _unquoted(part: bytes) -> bytes:
    return unquote_to_bytes(part.partition(b"=")[0]) + b"="


def sign_principal(principal: Principal, *, secret: bytes, now: float) -> str:
    """The value of ``X-CodeHub-Principal``: ``user_id role expiry signature``."""
    claim = f"{principal.user_id} {principal.role.value} {int(now + PRINCIPAL_LIFETIME)}"
    return f"{claim} {hmac.digest(secret, claim.encode(), 'sha256').hex()}"


def verify_principal(value: str, *, secret: bytes, now: float) -> Principal | None:
    """The API's side: who the proxy vouches for, or None when it does not."""
    claim, _, signature = value.rpartition(" ")
    expected = hmac.digest(secret, claim.encode(), "sha256").hex()
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        return None
    user_id, role, expires_at = claim.split(" ")
    return Principal(UUID(user_id), Role(role)) if now <= int(expires_at) else None


def _take_cookies(raw: bytes, wanted: bytes) -> tuple[bytes, bytes | None]:
    if _OWN_COOKIE.search(raw) is None:
        return raw, None
    kept: list[bytes] = []
    found: list[bytes] = []
    for pair in raw.split(b";"):
        name, _, value = pair.strip(b" \t").partition(b"=")
        if not is_codehub_cookie(name.strip(b" \t")):
            kept.append(pair.strip(b" \t"))
        elif name == wanted:
            found.append(value)
    # The name twice means that somebody planted one. Which is unknowable, so neither counts.
    return b"; ".join(kept), found[0] if len(found) == 1 and found[0] else None


def _key(credential: Credential) -> str:
    return f"{credential.kind.value}:{credential.workspace_id or ''}:{credential.secret}"
