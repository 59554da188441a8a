"""Rules of shared ports: who may open a port of a workspace besides its owner.

Pure. A share is an owner's word about one port; the installation's ceiling stands above it. The proxy asks
``level_now`` for each request, so an expired share is over even if nobody removed it.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

MAX_SHARES = 50
"""Ports of one workspace with a label or a share: the proxy holds all of them in memory."""

DEFAULT_LINK_HOURS = 24
_SALT = b"codehub port share 1"


class ShareLevel(StrEnum):
    """Who may open a port besides the owner and admins, least first."""

    PRIVATE = "private"
    SIGNED_IN = "signed_in"  # every enabled account of the installation
    PUBLIC = "public"  # whoever has the link, until it expires

    @property
    def rank(self) -> int:
        return list(ShareLevel).index(self)


@dataclass(frozen=True)
class PortShare:
    """A port with a label or a share. ``link_id`` changes with each new public link, and ends the earlier one."""

    port: int
    label: str
    level: ShareLevel
    expires_at: datetime | None
    link_id: UUID | None


@dataclass(frozen=True)
class SharePolicy:
    """What the installation allows. ``has_origins``: there is a base domain, so a port has an origin of its own."""

    ceiling: ShareLevel = ShareLevel.SIGNED_IN
    has_origins: bool = False
    max_link: timedelta = timedelta(days=7)

    @property
    def highest(self) -> ShareLevel:
        """The highest level that can be shared at all."""
        return self.ceiling if self.has_origins else ShareLevel.PRIVATE


def level_now(share: PortShare, policy: SharePolicy, *, now: datetime) -> ShareLevel:
    """The level that holds now: private once it has expired, or while the ceiling is lower."""
    if share.level.rank > policy.highest.rank or (share.expires_at is not None and share.expires_at <= now):
        return ShareLevel.PRIVATE
    return share.level


def link_key(secret: bytes, workspace_id: UUID, share: PortShare) -> str | None:
    """The key in a public link: derived from the installation's secret, so that it can be shown again.

    None: the share has no link. Keys of two links tell nothing of each other (HKDF, RFC 5869).
    """
    if share.link_id is None:
        return None
    extracted = hmac.digest(_SALT, secret, hashlib.sha256)
    about = workspace_id.bytes + share.port.to_bytes(2) + share.link_id.bytes
    return urlsafe_b64encode(hmac.digest(extracted, about + b"\x01", hashlib.sha256)).decode().rstrip("=")
