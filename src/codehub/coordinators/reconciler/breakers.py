"""Circuit breakers of runtime and archive store, and the probes that close them.

Kept in memory by the Reconciler's leader. A breaker decides nothing about a workspace; it only says whether
operations may be tried now, so that an engine that is away for minutes puts no workspace into ERROR.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

import structlog
from prometheus_client import Gauge

from codehub.domain.breaker import Breaker
from codehub.domain.errors import EffectError, FailureCode, Reason
from codehub.domain.states import Operation
from codehub.kit.tasks import cancel_and_wait

log = structlog.get_logger(__name__)

PROBE_SECONDS = 10.0
CHECK_EVERY = timedelta(seconds=30)
CHECK_WAIT_SECONDS = 1.0  # how long a tick waits for it; a slower result is reported by a later tick

ENGINE_AWAY = Gauge("codehub_engine_away", "1 while an engine as a whole does not answer", ["engine"])


class Backend(StrEnum):
    RUNTIME = "runtime"
    ARCHIVES = "archives"


NEEDS: Mapping[Operation, frozenset[Backend]] = {
    Operation.PROVISIONING: frozenset({Backend.RUNTIME, Backend.ARCHIVES}),
    Operation.RESTORING: frozenset({Backend.RUNTIME, Backend.ARCHIVES}),
    Operation.STARTING: frozenset({Backend.RUNTIME}),
    Operation.STOPPING: frozenset({Backend.RUNTIME}),
    Operation.ARCHIVING: frozenset({Backend.RUNTIME, Backend.ARCHIVES}),
    Operation.DELETING: frozenset({Backend.RUNTIME}),
}

EngineProbe = Callable[[], Awaitable[None]]


class CircuitBreakers:
    """One circuit breaker per engine."""

    def __init__(self, probes: Mapping[Backend, EngineProbe]) -> None:
        self._probes = probes
        self._breakers = {engine: Breaker() for engine in Backend}
        self._archives_error: str | None = None  # of the last check, shown to people
        self._checked_at: datetime | None = None
        self._checking: asyncio.Task[None] | None = None

    def available(self) -> frozenset[Operation]:
        """Operations none of whose breakers is open."""
        return frozenset(
            operation
            for operation, backends in NEEDS.items()
            if not any(self._breakers[backend].is_open for backend in backends)
        )

    def timeout_counts_from(self, operation: Operation) -> datetime | None:
        """When a backend of this operation last came back: its timeout counts from there."""
        moments = [self._breakers[backend].closed_at for backend in NEEDS.get(operation, ())]
        return max((moment for moment in moments if moment), default=None)

    def away(self) -> dict[str, str]:
        """Engines that are away, with their last error; for health and the dashboard."""
        seen = {Backend.ARCHIVES.value: self._archives_error} if self._archives_error else {}
        return seen | {
            engine.value: breaker.last_error or "does not answer"
            for engine, breaker in self._breakers.items()
            if breaker.is_open
        }

    async def check_archives(self, *, now: datetime) -> None:
        """Check the archive store every 30 s, to show its error to people.

        A wrong key or a missing bucket is found before a home needs the store, which may be days later. No
        operation waits because of this check: only an open breaker makes them wait.
        """
        if self._checked_at is not None and now - self._checked_at < CHECK_EVERY:
            return
        if self._checking is None or self._checking.done():
            self._checked_at = now
            self._checking = asyncio.create_task(self._check_archives(), name="look-at-archives")
            await asyncio.wait({self._checking}, timeout=CHECK_WAIT_SECONDS)

    async def close(self) -> None:
        """End the check in progress: the term is over, and the next leader checks itself."""
        checking, self._checking, self._checked_at = self._checking, None, None
        if checking is not None:
            await cancel_and_wait([checking])

    async def _check_archives(self) -> None:
        problem: str | None = None
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._probes[Backend.ARCHIVES]()
        except (EffectError, TimeoutError) as error:
            problem = str(error) or "did not answer"
        if (problem is None) != (
            self._archives_error is None
        ):  # log changes only: the text varies from check to check
            log.warning(
                "archive store cannot be used" if problem else "archive store can be used", error=problem
            )
        self._archives_error = problem

    def succeeded(self, operation: Operation, *, now: datetime) -> None:
        for engine in NEEDS[operation]:
            self._set(engine, self._breakers[engine].succeeded(now))

    async def is_outage(self, error: EffectError, *, workspace_id: UUID, now: datetime) -> bool:
        """Whether a failure is the engine's and not the workspace's. Probes the engine."""
        if error.reason is not Reason.UNREACHABLE:
            return False
        engine = Backend.ARCHIVES if error.failure is FailureCode.S3_ACCESS_ERROR else Backend.RUNTIME
        self._set(engine, self._breakers[engine].unreachable(workspace_id, error=error.message, now=now))
        if not self._breakers[engine].is_open:
            await self._probe(engine, now=now)
        return self._breakers[engine].is_open

    async def probe_due(self, *, now: datetime) -> Collection[Backend]:
        """Probe the engines that are away and due; returns those that came back."""
        due = [engine for engine in Backend if self._breakers[engine].probe_due(now)]
        await asyncio.gather(*(self._probe(engine, now=now) for engine in due))
        return [engine for engine in due if not self._breakers[engine].is_open]

    def next_probe_at(self) -> datetime | None:
        moments = [breaker.probe_at for breaker in self._breakers.values() if breaker.is_open]
        return min((moment for moment in moments if moment), default=None)

    async def _probe(self, engine: Backend, *, now: datetime) -> None:
        breaker = self._breakers[engine]
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._probes[engine]()
        except (EffectError, TimeoutError) as error:
            self._set(engine, breaker.probe_failed(error=str(error) or "did not answer", now=now))
        else:
            if breaker.is_open:
                self._set(engine, breaker.succeeded(now))

    def _set(self, engine: Backend, breaker: Breaker) -> None:
        before, self._breakers[engine] = self._breakers[engine], breaker
        if before.is_open != breaker.is_open:
            ENGINE_AWAY.labels(engine.value).set(int(breaker.is_open))
            event = "engine is away" if breaker.is_open else "engine is back"
            log.warning(event, engine=engine.value, error=breaker.last_error)
