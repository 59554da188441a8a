"""Route requests by host and path: API, workspace or internal endpoints.

Pure. Paths are compared as raw bytes: nothing is decoded or normalised, because an upstream may decode
differently and the two would then disagree about the path.
"""

import re
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from codehub.proxy.settings import ProxySettings

_ID: Final = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_LABEL: Final = re.compile(rb"(?:([1-9][0-9]{0,4})--)?(" + _ID + rb")")
_CANONICAL: Final = re.compile(_ID)
_PORT: Final = re.compile(rb"/port/([1-9][0-9]{0,4})(?=[/?]|$)")
INTERNAL_PREFIX: Final = b"/_codehub/"


class RouteKind(Enum):
    """What handles a request."""

    API = "api"
    WORKSPACE = "workspace"
    INTERNAL = "own"


class Route(NamedTuple):
    """Where a request goes.

    ``prefix`` is CodeHub's part of the target; ``path`` the rest, from its slash on.

    ``workspace_id`` None with WORKSPACE: the name is not a valid workspace id, so the answer is 404.
    ``needs_slash``: the target ends right after ``prefix``, and is redirected to ``prefix/``.
    """

    kind: RouteKind
    path: bytes
    workspace_id: UUID | None = None
    port: int | None = None
    prefix: bytes = b""
    on_workspace_host: bool = False
    needs_slash: bool = False


class Router:
    """Matches hosts and paths against the settings."""

    def __init__(self, settings: ProxySettings) -> None:
        base = settings.base_host
        self._suffix = b"." + base.encode() if base else None
        self._public_host = settings.public_host.encode()

    def match(self, host: bytes, target: bytes) -> Route:
        """Route a request. ``host`` is lower case, with or without a port."""
        if self._suffix is not None and (label := self._label(host)) is not None:
            return _host_mode(label, target)
        if target.startswith(b"/w/"):
            return _path_mode(target)
        if target.startswith(INTERNAL_PREFIX):
            return Route(RouteKind.INTERNAL, target)
        return Route(RouteKind.API, target)

    def _label(self, host: bytes) -> bytes | None:
        name = host.rpartition(b":")[0] if b":" in host else host
        if self._suffix is None or not name.endswith(self._suffix) or name == self._public_host:
            return None
        return name[: -len(self._suffix)]


def label_of(workspace_id: UUID, port: int | None) -> str:
    """Return the first label of a workspace host: ``{id}`` or ``{port}--{id}``."""
    return f"{port}--{workspace_id}" if port else str(workspace_id)


# Pays for: HTTP through the proxy with new connections.
@lru_cache(maxsize=4096)
def parse_id(raw: bytes) -> UUID | None:
    """Parse a workspace id.

    Canonical form only (lower case, hyphens): one id, one URL.
    """
    return UUID(raw.decode()) if _CANONICAL.fullmatch(raw) else None


def _host_mode(label: bytes, target: bytes) -> Route:
    match = _LABEL.fullmatch(label)
    workspace_id = parse_id(match[2]) if match else None
    port = int(match[1]) if match and match[1] else None
    if port is not None and port > 65535:
        workspace_id = None
    kind = RouteKind.INTERNAL if target.startswith(INTERNAL_PREFIX) else RouteKind.WORKSPACE
    return Route(kind, target, workspace_id, port, on_workspace_host=True)


def _path_mode(target: bytes) -> Route:
    raw, rest = target[3:39], target[39:]
    workspace_id = parse_id(raw)
    if workspace_id is None or rest[:1] not in (b"/", b"?", b""):
        return Route(RouteKind.WORKSPACE, target)
    prefix = target[:39]
    port = None
    if rest.startswith(b"/port/") and (match := _PORT.match(rest)):
        port = int(match[1])
        prefix, rest = prefix + match[0], rest[match.end() :]
        if port > 65535:
            return Route(RouteKind.WORKSPACE, target)
    if rest[:1] != b"/":
        return Route(RouteKind.WORKSPACE, rest, workspace_id, port, prefix, needs_slash=True)
    return Route(RouteKind.WORKSPACE, rest, workspace_id, port, prefix)
