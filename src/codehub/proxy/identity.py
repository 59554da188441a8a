"""Extract CodeHub's credentials from a request; hide them from workspaces.

Invariant: no workspace sees a cookie or token of CodeHub. They are removed from ``Cookie`` and
``Authorization``; cookies that the workspace's own pages set pass through. Towards the API the proxy names the
principal in a signed header, needed where the dashboard's cookie is not sent (a workspace's own origin).
Clients cannot forge it: it is signed, and every ``X-CodeHub-*`` field from a client is dropped.
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
# As a lenient parser may read the name: quoted, percent-encoded, another character for the underscore.
_LIKE_OWN_COOKIE: Final = re.compile(
    rb"[^a-z0-9]*(?:(?:host|secure)[^a-z0-9]+)?codehub[^a-z0-9=]", re.IGNORECASE
)
_BEARER: Final = re.compile(rb"bearer[ \t]+(chp_[\x21-\x7e]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CookieNames:
    """Names of CodeHub's cookies.

    Over HTTPS with ``__Host-``, which a sibling domain cannot set.
    """

    session: bytes
    workspace: bytes
    share: bytes

    @classmethod
    def of(cls, *, secure: bool) -> "CookieNames":
        prefix = b"__Host-" if secure else b""
        return cls(
            session=prefix + b"codehub_session",
            workspace=prefix + b"codehub_ws",
            share=prefix + b"codehub_share",
        )


class Identity:
    """The credential of a request; its ``Cookie`` and ``Authorization`` without it."""

    __slots__ = ("authorization", "cookie", "credential", "key", "link_key")

    def __init__(
        self,
        credential: Credential | None,
        cookie: bytes,
        authorization: bytes,
        link_key: bytes | None = None,
    ) -> None:
        self.credential = credential
        self.link_key = link_key  # of a public link to this port, as its cookie has it
        self.cookie = cookie  # what may go to a workspace
        self.authorization = authorization
        self.key = "" if credential is None else _key(credential)

    @property
    def by_token(self) -> bool:
        """Whether the credential is an API token.

        Browsers never send one by themselves, so no page can misuse it.
        """
        return self.credential is not None and self.credential.kind is CredentialKind.TOKEN


def identify(
    cookie: bytes | None,
    authorization: bytes | None,
    *,
    names: CookieNames,
    on_workspace_host: bool,
    workspace_id: UUID | None,
) -> Identity:
    """Split a request's fields into CodeHub's credential and what a workspace may see.

    A token takes precedence. On a workspace host only that workspace's cookie is a credential, elsewhere only
    the session cookie. The key of a public link is no credential: it belongs to nobody.
    """
    token = _BEARER.fullmatch(authorization) if authorization else None
    wanted = names.workspace if on_workspace_host else names.session
    clean, found, link_key = _take_cookies(cookie or b"", wanted, names.share)
    credential: Credential | None = None
    if token is not None:
        credential = Credential(CredentialKind.TOKEN, token[1].decode())
    elif found is not None and not on_workspace_host:
        credential = Credential(CredentialKind.SESSION, found.decode("latin-1"))
    elif found is not None and workspace_id is not None:
        credential = Credential(CredentialKind.WORKSPACE, found.decode("latin-1"), workspace_id)
    return Identity(
        credential, clean, b"" if token else authorization or b"", link_key if on_workspace_host else None
    )


def is_codehub_cookie(name: bytes) -> bool:
    """Whether a cookie name is reserved: ``codehub_…``, also with ``__Host-``."""
    return _OWN_COOKIE.match(name) is not None


def may_be_read_as_own_cookie(pair: bytes) -> bool:
    """Whether any parser could read this Set-Cookie ``name=value`` as CodeHub's.

    A browser returns a cookie without a name as its bare value, ``=codehub_ws=x`` as ``codehub_ws=x``. Some
    parsers end a cookie at a comma, decode its name or strip more white space than a browser does.
    """
    name, separator, _ = pair.partition(b"=")
    if not separator or not name.strip(b" \t"):
        return True
    return any(_LIKE_OWN_COOKIE.match(_unquoted(part)) for part in pair.split(b",") if b"=" in part)


def _unquoted(part: bytes) -> bytes:
    return unquote_to_bytes(part.partition(b"=")[0]) + b"="


def sign_principal(principal: Principal, *, secret: bytes, now: float) -> str:
    """Write the value of ``X-CodeHub-Principal``: ``user_id role expiry signature``.

    Valid for 30 s.
    """
    claim = f"{principal.user_id} {principal.role.value} {int(now + PRINCIPAL_LIFETIME)}"
    return f"{claim} {hmac.digest(secret, claim.encode(), 'sha256').hex()}"


def verify_principal(value: str, *, secret: bytes, now: float) -> Principal | None:
    """Verify a value of ``X-CodeHub-Principal``, for the API.

    None: bad signature, or expired.
    """
    claim, _, signature = value.rpartition(" ")
    expected = hmac.digest(secret, claim.encode(), "sha256").hex()
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        return None
    user_id, role, expires_at = claim.split(" ")
    return Principal(UUID(user_id), Role(role)) if now <= int(expires_at) else None


def _take_cookies(raw: bytes, wanted: bytes, share: bytes) -> tuple[bytes, bytes | None, bytes | None]:
    if _OWN_COOKIE.search(raw) is None:
        return raw, None, None
    kept: list[bytes] = []
    found: list[bytes] = []
    shared: list[bytes] = []
    for pair in raw.split(b";"):
        name, _, value = pair.strip(b" \t").partition(b"=")
        if not is_codehub_cookie(name.strip(b" \t")):
            kept.append(pair.strip(b" \t"))
        elif name == wanted:
            found.append(value)
        elif name == share:
            shared.append(value)
    return b"; ".join(kept), _the_one(found), _the_one(shared)


def _the_one(values: list[bytes]) -> bytes | None:
    """Two cookies of one name: another origin may have set one, and which is unknown. Use neither."""
    return values[0] if len(values) == 1 and values[0] else None


def _key(credential: Credential) -> str:
    return f"{credential.kind.value}:{credential.workspace_id or ''}:{credential.secret}"
