"""Sort workspaces as the dashboard does (``web/src/live/order.ts``).

What is pinned, then trouble, then what runs, then what was used last.

Names are compared as people count: "run 2" before "run 10". Pure.
"""

import re
from collections.abc import Iterable

from codehub.cli.answers import Workspace
from codehub.cli.words import parse_time

_REST = 2
_RANKS = {
    "error": 0,
    "running": 1,
    "starting": 1,
    "restoring": 1,
    "provisioning": 1,
    "deleting": 3,
    "deleted": 3,
}


def in_order(workspaces: Iterable[Workspace]) -> list[Workspace]:
    """Sort workspaces for reading."""
    return sorted(workspaces, key=_key)


def _key(ws: Workspace) -> tuple[bool, int, float, list[tuple[int, str]], str]:
    rank = _RANKS.get(ws["status"], _REST)
    used = -_used_at(ws) if rank == _REST else 0
    return (not ws.get("pinned"), rank, used, _natural(ws["name"]), ws["id"])


def _used_at(ws: Workspace) -> float:
    times = (ws["activity"]["last_seen_at"], ws["last_access_at"])
    return max(parse_time(at).timestamp() if at else 0 for at in times)


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers as numbers, before words; words without regard to capitals."""
    return [
        (int(piece), "") if piece.isdecimal() else (10**12, piece)
        for piece in re.split(r"([0-9]+)", name.casefold())
        if piece
    ]
