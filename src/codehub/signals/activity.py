"""Record and read activity in Redis: leases of open connections and an idle timer.

The proxy writes (``proxy/leases``), the TTL manager reads. Losing Redis, or its data, may keep a workspace
awake too long and must never put one to standby that is in use. So:

- each open connection is a *lease* that expires unless renewed, never a counter that a crash leaves too high;
- all times are Redis's own (``TIME``): proxies with wrong clocks cannot disagree;
- a reading carries the ``RedisIdentity`` it was made under. Readers must not treat a workspace as idle unless
  ``domain/ttl.memory_is_complete`` accepts the age of that data: "no lease" in data younger than the idle
  period proves nothing;
- every failure raises ``RedisUnavailable``: a missing answer is never "idle".
"""

import hashlib
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from redis.exceptions import NoScriptError

from codehub.domain.ttl import LEASE_SECONDS, Activity
from codehub.signals import activity_scripts as scripts
from codehub.signals.connection import RedisLink, RedisUnavailable
from codehub.signals.outage import Outage

EPOCH_KEY = "codehub:epoch"
WRITE_CHUNK = 1000
READ_CHUNK = 500
"""Workspaces per script call. Redis is blocked meanwhile: about a millisecond."""

FIELDS_READ = 6  # for each workspace, by scripts.READ


class ActivityKind(StrEnum):
    """What kind of use it was."""

    HTTP = "http"
    WEBSOCKET = "websocket"
    START = "start"


@dataclass(frozen=True)
class Lease:
    """One open connection or request to a workspace."""

    id: str
    workspace_id: UUID
    ttl_seconds: float
    kind: ActivityKind = ActivityKind.WEBSOCKET
    input_age_seconds: float | None = None  # since a person last caused something; None: not seen


@dataclass(frozen=True)
class RedisIdentity:
    """Which data answered: a new ``epoch`` begins when Redis may have lost some."""

    run_id: str
    epoch: str
    age_seconds: float
    now_seconds: float = 0.0  # by Redis's clock


@dataclass(frozen=True)
class ActivityReading:
    """Activities, and the identity of the data they were read from."""

    identity: RedisIdentity
    activities: Mapping[UUID, Activity]


@dataclass(frozen=True)
class Ended:
    """A lease that ended ``age_seconds`` ago."""

    lease: Lease
    age_seconds: float = 0.0


@dataclass(frozen=True)
class Touch:
    """A request, or other use without duration, ``age_seconds`` ago."""

    workspace_id: UUID
    ttl_seconds: float
    kind: ActivityKind = ActivityKind.HTTP
    age_seconds: float = 0.0
    input_age_seconds: float | None = None


class ActivityLog:
    """The activity keys of one Redis. Every call has a timeout.

    Every method raises ``RedisUnavailable``.
    """

    def __init__(self, link: RedisLink, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.lease_seconds = lease_seconds
        self._link = link
        self._outage = Outage("activity")

    async def take(
        self,
        workspace_id: UUID,
        lease_id: str,
        *,
        ttl_seconds: float,
        kind: ActivityKind = ActivityKind.WEBSOCKET,
        input_age_seconds: float | None = None,
    ) -> None:
        """Take or renew a lease and set the idle timer to ttl + lease.

        So the timer outlives a proxy that dies, by the ttl.
        """
        await self.write(leases=[Lease(lease_id, workspace_id, ttl_seconds, kind, input_age_seconds)])

    async def release(
        self,
        workspace_id: UUID,
        lease_id: str,
        *,
        ttl_seconds: float,
        kind: ActivityKind = ActivityKind.WEBSOCKET,
        input_age_seconds: float | None = None,
    ) -> None:
        """Release a lease. Releasing the last one sets the idle timer to ttl."""
        lease = Lease(lease_id, workspace_id, ttl_seconds, kind, input_age_seconds)
        await self.write(ended=[Ended(lease)])

    async def touch(
        self, workspace_id: UUID, ttl_seconds: float, kind: ActivityKind = ActivityKind.HTTP
    ) -> None:
        await self.write(touches=[Touch(workspace_id, ttl_seconds, kind)])

    async def retime(self, workspace_id: UUID, ttl_seconds: float) -> None:
        """Adjust the running idle timer to a new idle period."""
        await self._run([_ScriptCall(scripts.RETIME, _keys(workspace_id), [_ms(ttl_seconds)])])

    async def write(
        self,
        *,
        touches: Collection[Touch] = (),
        ended: Collection[Ended] = (),
        leases: Collection[Lease] = (),
    ) -> None:
        """Write any number of touches, released leases and leases. Idempotent.

        If it raises, any part of it may have been written: repeat all of it.
        """
        calls = [
            *(self._touch_call(each) for each in touches),
            *(self._release_call(each) for each in ended),
            *(self._take_call(each) for each in leases),
        ]
        # In chunks, so that each stays far below the timeout however many leases a proxy holds.
        for start in range(0, len(calls), WRITE_CHUNK):
            await self._run(calls[start : start + WRITE_CHUNK])

    async def read(self, workspace_ids: Collection[UUID]) -> ActivityReading:
        """Read the activities of these workspaces, all from data of one identity.

        Raises ``RedisUnavailable`` if Redis lost its data meanwhile.
        """
        ids = [str(each) for each in workspace_ids]
        chunks = [ids[start : start + READ_CHUNK] for start in range(0, len(ids), READ_CHUNK)]
        calls = [_ScriptCall(scripts.IDENTITY, [EPOCH_KEY], [secrets.token_hex(16)])]
        calls += [_ScriptCall(scripts.READ, [EPOCH_KEY], chunk) for chunk in chunks]
        # One round trip, but not atomic: Redis may be flushed between two of its scripts.
        answers = await self._run(calls, timeout_seconds=self._link.timeout_seconds + len(chunks) * 0.05)
        identity = _identity(answers[0])
        activities: dict[UUID, Activity] = {}
        for chunk, answer in zip(chunks, answers[1:], strict=True):
            if answer[0].decode() != identity.epoch:
                raise RedisUnavailable("activity: Redis lost its memory while it was being read")
            for position, workspace_id in enumerate(chunk):
                fields = answer[1 + FIELDS_READ * position : 1 + FIELDS_READ * (position + 1)]
                activities[UUID(workspace_id)] = _activity(fields, identity)
        return ActivityReading(identity, activities)

    async def read_many(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Activity]:
        return (await self.read(workspace_ids)).activities

    async def identity(self) -> RedisIdentity:
        return (await self.read(())).identity

    def _take_call(self, lease: Lease) -> "_ScriptCall":
        arguments: list[str | int] = [
            _member(lease),
            _ms(self.lease_seconds),
            _ms(lease.ttl_seconds),
            lease.kind.value,
            _input_ms(lease.input_age_seconds),
        ]
        return _ScriptCall(scripts.TAKE, _keys(lease.workspace_id), arguments)

    def _release_call(self, ended: Ended) -> "_ScriptCall":
        lease = ended.lease
        arguments: list[str | int] = [
            _member(lease),
            _ms(ended.age_seconds),
            _ms(lease.ttl_seconds),
            lease.kind.value,
            _input_ms(lease.input_age_seconds),
        ]
        return _ScriptCall(scripts.RELEASE, _keys(lease.workspace_id), arguments)

    def _touch_call(self, touch: Touch) -> "_ScriptCall":
        arguments: list[str | int] = [_ms(touch.age_seconds), _ms(touch.ttl_seconds), touch.kind.value]
        arguments.append(_input_ms(touch.input_age_seconds))
        return _ScriptCall(scripts.TOUCH, _keys(touch.workspace_id)[1:], arguments)

    async def _run(
        self, calls: "Sequence[_ScriptCall]", *, timeout_seconds: float | None = None
    ) -> list[Any]:
        async with self._link.bounded(self._outage, timeout_seconds=timeout_seconds) as client:
            for may_load in (True, False):
                async with client.pipeline(transaction=False) as pipe:
                    for call in calls:
                        pipe.evalsha(call.sha, len(call.keys), *call.keys, *call.arguments)
                    answers: list[Any] = await pipe.execute(raise_on_error=False)
                failures = [answer for answer in answers if isinstance(answer, Exception)]
                if may_load and any(isinstance(failure, NoScriptError) for failure in failures):
                    # A restarted Redis has no scripts. They are idempotent: load them and run all again.
                    for body in {call.script for call in calls}:
                        await client.script_load(body)
                    continue
                if failures:
                    raise failures[0]
                return answers
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class _ScriptCall:
    script: str
    keys: Sequence[str]
    arguments: Sequence[str | int]

    @property
    def sha(self) -> str:
        return _sha(self.script)


def _sha(script: str) -> str:
    if script not in _SHAS:
        _SHAS[script] = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
    return _SHAS[script]


_SHAS: dict[str, str] = {}


def _keys(workspace_id: UUID) -> list[str]:
    return [f"ws_conn:{workspace_id}", f"idle_timer:{workspace_id}", f"last_seen:{workspace_id}"]


def _member(lease: Lease) -> str:
    """Name the lease in Redis: requests get a prefix.

    Requests in flight keep a workspace awake like WebSockets, but are not counted with them.
    """
    return lease.id if lease.kind is ActivityKind.WEBSOCKET else scripts.REQUESTS + lease.id


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _input_ms(age_seconds: float | None) -> str | int:
    return "" if age_seconds is None else _ms(age_seconds)


def _identity(answer: Sequence[Any]) -> RedisIdentity:
    epoch, run_id, age_ms, now_ms = answer
    return RedisIdentity(run_id.decode(), epoch.decode(), age_ms / 1000, now_ms / 1000)


def _activity(fields: Sequence[Any], identity: RedisIdentity) -> Activity:
    sockets, requests, timer_ms, at, kind, input_age_ms = fields
    return Activity(
        connections=sockets,
        requests=requests,
        # PTTL: -2 no such key, -1 a key that never expires, which is a timer still running
        idle_timer=timedelta(milliseconds=max(timer_ms, 0)) if timer_ms != -2 else None,
        last_seen_at=datetime.fromtimestamp(int(at) / 1000, UTC) if at else None,
        kind=kind.decode() or None,
        input_age=timedelta(milliseconds=input_age_ms) if input_age_ms >= 0 else None,
        memory_age=timedelta(seconds=identity.age_seconds),
    )
