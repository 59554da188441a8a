"""Following one workspace until it comes to rest, through restarts of the server and lost connections.

Each connection begins with the whole current state, so nothing has to be remembered between two of them:
whoever reconnects knows everything again.
"""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from codehub.cli.answers import Workspace
from codehub.cli.client import Client, NotFound, Refusal
from codehub.cli.failures import Unreachable

SILENCE_SECONDS = 75.0
"""The server's heart beats every 30 seconds: one that missed two beats is gone, whatever TCP thinks."""

FIRST_RETRY_SECONDS = 0.25
LONGEST_RETRY_SECONDS = 1.2


class Rest(Enum):
    """How a workspace came to rest."""

    CONVERGED = "converged"
    FAILED = "failed"
    DELETED = "deleted"


@dataclass(frozen=True)
class State:
    """What is known now. ``detail``: bytes and files, as the last progress event told them."""

    event: str
    workspace: Workspace
    detail: dict[str, Any] | None = None


@dataclass(frozen=True)
class Lost:
    """The connection broke. Trying again goes on by itself."""

    why: str


def rest_of(ws: Workspace) -> Rest | None:
    """None while something is still to come."""
    if ws["status"] == "deleted":
        return Rest.DELETED
    if ws["deleted_at"] is not None:
        return None
    if ws["status"] == "error":
        # Just recovered: the error is lifted, and the Observer's look that answers it is still to come.
        return Rest.FAILED if ws["error_info"] is not None else None
    if ws["operation"] == "NONE" and ws["desired_state"] == ws["observed_status"]:
        return Rest.CONVERGED
    if archiving_given_up(ws):
        return Rest.FAILED
    return None


def archiving_given_up(ws: Workspace) -> bool:
    """Tried again in some hours: nobody waits for that."""
    error = ws["error_info"]
    given_up = error is not None and "next_try_at" in error["context"]
    return given_up and ws["operation"] == "NONE" and ws["desired_state"] == "PENDING"


def follow(client: Client, workspace: Workspace) -> Iterator[State | Lost]:
    """Every change, until the caller has seen enough. Ends by itself with a deletion."""
    known = workspace
    was_connected = False
    retry_seconds = FIRST_RETRY_SECONDS
    while True:
        try:
            with client.events(known["id"], read_seconds=SILENCE_SECONDS) as events:
                for event in events:
                    was_connected, retry_seconds = True, FIRST_RETRY_SECONDS
                    state = _take(known, event.name, event.data)
                    if state is not None:
                        known = state.workspace
                        yield state
                        if rest_of(known) is Rest.DELETED:
                            return
            why = "the server ended it"
        except Refusal as refusal:
            if isinstance(refusal, NotFound) and known["deleted_at"] is not None:
                # Deleted while nobody listened: there is no event left to say so.
                yield State("deleted", cast(Workspace, {**known, "status": "deleted", "operation": "NONE"}))
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
        retry_seconds = min(retry_seconds * 2, LONGEST_RETRY_SECONDS)


def _take(known: Workspace, name: str, data: str) -> State | None:
    """What this event makes of what is known; None: nothing new."""
    match name:
        case "state_changed" | "deleted":
            told = cast(Workspace, json.loads(data))
            return None if told["version"] < known["version"] else State(name, told)
        case "progress":
            detail = cast(dict[str, Any], json.loads(data))
            percent = detail.get("progress")
            return State(name, cast(Workspace, {**known, "progress": percent}), detail)
        case _:
            return None  # heartbeat, resync (the state follows), error (stands beside a state_changed)
