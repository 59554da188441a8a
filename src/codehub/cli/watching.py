"""Follow one workspace's events until it is settled; reconnect after failures.

Each connection begins with the whole current state, so a reconnect needs nothing from the connection before.
"""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from codehub.cli.answers import Workspace
from codehub.cli.client import Client
from codehub.cli.failures import Unreachable
from codehub.cli.refusals import NotFound, Refusal

READ_TIMEOUT_SECONDS = 75.0
"""The server sends a heartbeat every 30 s: after two missed ones the connection is dead, even if TCP is up."""

FIRST_RETRY_SECONDS = 0.25
MAX_RETRY_SECONDS = 1.2


class WatchOutcome(Enum):
    """How a workspace settled."""

    CONVERGED = "converged"
    FAILED = "failed"
    DELETED = "deleted"


@dataclass(frozen=True)
class WatchState:
    """The current state. ``detail``: bytes and files of the last progress event."""

    event: str
    workspace: Workspace
    detail: dict[str, Any] | None = None


@dataclass(frozen=True)
class Lost:
    """The connection broke. ``follow`` reconnects."""

    why: str


def outcome_of(ws: Workspace) -> WatchOutcome | None:
    """Return how the workspace settled; None while it is changing."""
    if ws["status"] == "deleted":
        return WatchOutcome.DELETED
    if ws["deleted_at"] is not None:
        return None
    if ws["status"] == "error":
        # Just recovered: the error is lifted, and the Observer has not updated the health yet.
        return WatchOutcome.FAILED if ws["error_info"] is not None else None
    if ws.get("queued_at"):  # it starts when it is its turn
        return None
    if ws.get("snapshot_as") is not None and ws["status"] != "error":
        return None
    if ws["operation"] == "NONE" and ws["desired_state"] == ws["observed_status"]:
        return WatchOutcome.CONVERGED
    if archiving_given_up(ws):
        return WatchOutcome.FAILED
    return None


def archiving_given_up(ws: Workspace) -> bool:
    """Whether archiving is postponed for hours: a command does not wait for that."""
    error = ws["error_info"]
    given_up = error is not None and "next_try_at" in error["context"]
    return given_up and ws["operation"] == "NONE" and ws["desired_state"] == "PENDING"


def follow(client: Client, workspace: Workspace) -> Iterator[WatchState | Lost]:
    """Yield every change, and lost connections. Ends when the workspace is deleted."""
    known = workspace
    was_connected = False
    retry_seconds = FIRST_RETRY_SECONDS
    while True:
        try:
            with client.events(known["id"], read_seconds=READ_TIMEOUT_SECONDS) as events:
                for event in events:
                    was_connected, retry_seconds = True, FIRST_RETRY_SECONDS
                    state = _apply(known, event.name, event.data)
                    if state is not None:
                        known = state.workspace
                        yield state
                        if outcome_of(known) is WatchOutcome.DELETED:
                            return
            why = "the server ended it"
        except Refusal as refusal:
            if isinstance(refusal, NotFound) and known["deleted_at"] is not None:
                # Deleted while disconnected: no event will report it.
                yield WatchState(
                    "deleted", cast(Workspace, {**known, "status": "deleted", "operation": "NONE"})
                )
                return
            if not (was_connected and refusal.is_outage):
                raise
            why = str(refusal)
        except Unreachable as error:
            if not was_connected:
                raise
            why = str(error)
        yield Lost(why)
        time.sleep(retry_seconds * random.uniform(0.5, 1.5))
        retry_seconds = min(retry_seconds * 2, MAX_RETRY_SECONDS)


def _apply(known: Workspace, name: str, data: str) -> WatchState | None:
    """Apply an event to the known state. None: nothing new."""
    match name:
        case "state_changed" | "deleted":
            received = cast(Workspace, json.loads(data))
            return None if received["version"] < known["version"] else WatchState(name, received)
        case "progress":
            detail = cast(dict[str, Any], json.loads(data))
            news = {"progress": detail.get("progress"), "waiting_for": detail.get("waiting_for")}
            return WatchState(name, cast(Workspace, {**known, **news}), detail)
        case "activity" if known.get("queued_at"):  # it moved up in line
            activity = json.loads(data)["activity"]
            return WatchState(name, cast(Workspace, {**known, "activity": activity}))
        case _:
            return None  # heartbeat, resync (the state follows), error (comes with a state_changed)
