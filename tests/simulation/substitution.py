"""Puts the simulation beneath the product: the functions of ``codehub.store``, clocks and randomness.

Nothing above the store is replaced. Whoever imported one of these names gets the substitute too, wherever
in ``codehub`` that is; on leaving, everything is as it was.
"""

import asyncio
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog

from codehub.coordinators import leadership as product_leadership
from codehub.coordinators import loop as product_loop
from codehub.kit import clock, ids
from codehub.server import control_plane
from codehub.store.accounts import audit
from codehub.store.cluster import orphans, terms
from codehub.store.db import context, row_locks, statements
from codehub.store.workspaces import bulk_claims, claims, due, intents, limits, observations, ttl
from codehub.store.workspaces import queries as workspaces
from tests.simulation import queries, queries_due, queries_rows
from tests.simulation.connection import Connector, FencedSession, Session
from tests.simulation.loop import CURRENT

if TYPE_CHECKING:
    from tests.simulation.world import World

_worlds: list["World"] = []

SUBSTITUTES: dict[ModuleType, tuple[ModuleType, tuple[str, ...]]] = {
    terms: (
        queries,
        ("acquire_term", "hold_term", "record_tick", "record_error", "read_terms", "last_tick_at"),
    ),
    due: (queries_due, ("load_in_flight", "load_work")),
    claims: (
        queries,
        (
            "holds",
            "catch_up",
            "record_failure",
            "go_terminal",
            "release",
            "commit_archive_key",
            "mark_restored",
            "record_crash",
            "set_error_without_operation",
            "mark_home",
        ),
    ),
    bulk_claims: (queries, ("claim_all", "complete_all")),
    context: (queries, ("set_actor",)),
    row_locks: (queries, ("lock_in_order",)),
    statements: (queries, ("now",)),
    observations: (
        queries_rows,
        (
            "load_watched",
            "load_named",
            "write_observations",
            "stamp_in_flight",
            "stamp_coarse",
            "set_invariant_error",
        ),
    ),
    workspaces: (queries_rows, ("find", "find_locked")),
    intents: (queries_rows, ("create", "set_desired", "mark_deleted", "touch", "recover")),
    limits: (queries_due, ("lock_limits", "usage_for", "running_of")),
    ttl: (queries_due, ("load_standby_candidates", "load_archive_candidates")),
    orphans: (queries_due, ("load_owners", "replace_seen", "forget")),
}


def current_world() -> "World":
    return _worlds[-1]


@contextmanager
def in_world(world: "World") -> Iterator[None]:
    _worlds.append(world)
    try:
        yield
    finally:
        _worlds.pop()


@contextmanager
def substituted() -> Iterator[None]:
    """For any number of runs: what differs between them is in the world."""
    undo: list[tuple[Any, str, Any]] = []

    def put(module: Any, name: str, value: Any) -> None:
        undo.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    for module, (source, names) in SUBSTITUTES.items():
        for name in names:
            original, substitute = getattr(module, name), getattr(source, name)
            for holder in _holders(original, name):
                put(holder, name, substitute)
    put(audit, "append", queries_rows.append_audit)
    put(product_leadership, "Session", Session)
    put(product_leadership, "FencedSession", FencedSession)
    put(control_plane, "coordinator_connector", lambda *_, **__: Connector(current_world().database))
    put(product_loop, "random", SimpleNamespace(uniform=lambda a, b: current_world().random.uniform(a, b)))
    for holder in _holders(ids.uuid7, "uuid7"):
        put(holder, "uuid7", _seeded_uuid)
    put(clock, "time", _Clocks())
    with quiet_logs():
        try:
            yield
        finally:
            for module, name, value in reversed(undo):
                setattr(module, name, value)


@contextmanager
def quiet_logs() -> Iterator[None]:
    """What the product logs goes into the trace, if somebody reads it."""
    before = structlog.get_config()
    structlog.configure(processors=[_to_trace], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


def _to_trace(_: Any, level: str, event: Any) -> Any:
    world = current_world() if _worlds else None
    if world is not None and world.chaos.trace is not None:
        fields = {key: value for key, value in event.items() if key not in ("event", "exc_info")}
        world.say(f"{CURRENT.get()}: {event.get('event')} {fields} {event.get('exc_info') or ''}")
    raise structlog.DropEvent


def _holders(original: Any, name: str) -> list[ModuleType]:
    """Every module of the product that knows this function by this name."""
    return [
        module
        for path, module in list(sys.modules.items())
        if path.startswith("codehub.") and getattr(module, name, None) is original
    ]


def _seeded_uuid() -> UUID:
    world = current_world()
    return UUID(int=world.random.getrandbits(128), version=4)


class _Clocks:
    """``time`` for ``kit.clock``: the loop's time, plus what the process's own clock has jumped."""

    CLOCK_BOOTTIME = 7

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def clock_gettime(self, _clock: int) -> float:
        process = CURRENT.get()
        return self.monotonic() + (process.boot_offset if process is not None else 0.0)


def seeded(seed: int, stream: int) -> random.Random:
    return random.Random(seed * 1000 + stream)
