"""A leader that freezes before any of its calls, and goes on after a newer one has done its work, does no harm.

For every call k of a verb: stop before the k-th call, let a newer leader act to its end, and let the older one go on.
It is refused, or nothing is different afterwards: the same pods and claims exist, by uid. A witness that watches the
API server has seen no pod of the older one get a node in between.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import FencingToken
from codehub.runtimes.kubernetes.access import Access
from codehub.runtimes.kubernetes.client import ApiClient
from codehub.runtimes.kubernetes.runtime import KubernetesRuntime
from tests.contract.runtime_suite import ignore, job_of, running_job, start
from tests.support.kubernetes_environment import KubernetesEnvironment

BEFORE, OLD, NEW = FencingToken(1, 1), FencingToken(2, 1), FencingToken(3, 1)
AT_ONCE = 4
Act = Callable[[KubernetesEnvironment, KubernetesRuntime, UUID, FencingToken], Awaitable[object]]


class FreezingClient(ApiClient):
    """Stops before its k-th call, and before every later one, until it may go on."""

    def __init__(self, access: Access, *, before_call: int) -> None:
        super().__init__(access)
        self.calls = 0
        self.frozen = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self._before_call = before_call

    async def _send(self, method: str, path: str, **more: Any) -> aiohttp.ClientResponse:
        self.calls += 1
        if self.calls >= self._before_call:
            self.frozen.set()
            await self.may_go_on.wait()
        return await super()._send(method, path, **more)


async def nothing(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    pass


async def provision(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    await runtime.provision(ws, token=token)


async def run(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    await start(runtime, ws, token=token, image=environment.image)


async def stop(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    await runtime.stop(ws, token=token)


async def delete(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    await runtime.stop(ws, token=token)
    await runtime.kill_storage_job(ws, token=token)
    await runtime.delete_volume(ws, token=token)


async def delete_volume(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    await runtime.delete_volume(ws, token=token)


async def archive(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    await runtime.run_storage_job(job_of(ws), token=token, on_progress=ignore)


async def stop_and_archive(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    await runtime.stop(ws, token=token)
    await archive(environment, runtime, ws, token)


async def kill_job(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    await runtime.kill_storage_job(ws, token=token)


async def provision_and_run(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> None:
    await provision(environment, runtime, ws, token)
    await run(environment, runtime, ws, token)


async def provision_and_slow_job(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> "asyncio.Task[Any]":
    await provision(environment, runtime, ws, token)
    return await slow_job(environment, runtime, ws, token)


async def slow_job(
    environment: KubernetesEnvironment, runtime: KubernetesRuntime, ws: UUID, token: FencingToken
) -> "asyncio.Task[Any]":
    """A job that goes on while the older leader wakes up."""
    await environment.let_jobs(ws, "slow")
    return await running_job(runtime, ws, token=token, seconds=90)


@dataclass(frozen=True)
class Case:
    before: Act
    old: Act
    new: Act


CASES: Mapping[str, Case] = {
    "provision, then deleted": Case(nothing, provision, delete),
    "provision, then started": Case(nothing, provision, provision_and_run),
    "start, then deleted": Case(provision, run, delete),
    "start, then started": Case(provision, run, run),
    "start, then archived": Case(provision, run, stop_and_archive),
    "start, then archived at once": Case(provision, run, archive),
    "stop, then started": Case(provision_and_run, stop, run),
    "delete, then started": Case(provision, delete_volume, run),
    "delete, then provisioned": Case(provision, delete_volume, provision),
    "delete, then archived": Case(provision, delete_volume, archive),
    "archive, then started": Case(provision, archive, run),
    "archive, then deleted": Case(provision, archive, delete),
    "kill job, then a newer job": Case(provision_and_slow_job, kill_job, slow_job),
}

IN_TIME = {(delete_volume, FailureCode.VOLUME_MISSING), (run, FailureCode.VOLUME_IN_USE)}


@pytest.mark.parametrize("name", CASES)
async def test_a_frozen_leader_does_no_harm(environment: KubernetesEnvironment, name: str) -> None:
    case = CASES[name]
    calls = await count_calls(environment, case)
    assert calls >= 3
    places = asyncio.Semaphore(AT_ONCE)

    async def freeze(before_call: int) -> None:
        async with places:
            await freeze_before(environment, case, before_call=before_call)

    await asyncio.gather(*(freeze(number) for number in range(1, calls + 1)))


async def count_calls(environment: KubernetesEnvironment, case: Case) -> int:
    ws = uuid4()
    background = await case.before(environment, await environment.open(), ws, BEFORE)
    clients: list[FreezingClient] = []

    def make(access: Access) -> FreezingClient:
        clients.append(FreezingClient(access, before_call=10**9))
        return clients[-1]

    with suppress(EffectError):
        await case.old(environment, await environment.open(make_api=make), ws, OLD)
    await end(background)
    return clients[0].calls


async def freeze_before(environment: KubernetesEnvironment, case: Case, *, before_call: int) -> None:
    ws = uuid4()
    earlier = await case.before(environment, await environment.open(), ws, BEFORE)
    clients: list[FreezingClient] = []

    def make(access: Access) -> FreezingClient:
        clients.append(FreezingClient(access, before_call=before_call))
        return clients[-1]

    frozen = await environment.open(make_api=make)
    old = asyncio.ensure_future(case.old(environment, frozen, ws, OLD))
    (client,) = clients
    await asyncio.wait(
        {old, asyncio.ensure_future(client.frozen.wait())}, return_when=asyncio.FIRST_COMPLETED
    )
    if client.frozen.is_set():
        background = None
        newer = await environment.open()
        with tolerate_what_came_in_time(case):
            background = await case.new(environment, newer, ws, NEW)
        left = state_of(environment, ws)
        version = await newer._api.newest_version(environment.path("pods"))
        client.may_go_on.set()
        failure = await outcome_of(old)
        placed = await pods_placed_since(newer._api, environment.path("pods"), ws, version=version)
        assert placed <= {uid for _, _, uid in left}, f"before call {before_call}: {placed} ran"
        assert failure in (None, FailureCode.STALE_TOKEN), f"before call {before_call}: {failure}"
        assert state_of(environment, ws) == left, f"before call {before_call}: {failure}"
        await end(background)
    else:
        await outcome_of(old)  # it took fewer calls this time
    await end(earlier)


@contextmanager
def tolerate_what_came_in_time(case: Case) -> Iterator[None]:
    """An older leader that froze after its last call was in time: the newer one finds no home, or a running pod."""
    try:
        yield
    except EffectError as error:
        if (case.old, error.failure) not in IN_TIME:
            raise


async def pods_placed_since(api: ApiClient, path: str, ws: UUID, *, version: str) -> set[str]:
    """Pods of a workspace that had a node at some moment since ``version``, by uid."""
    events = api.watch(path, version=version, seconds=1, labelSelector=f"codehub.workspace={ws}")
    return {
        str(found["metadata"]["uid"])
        async for kind, found in events
        if kind in ("ADDED", "MODIFIED") and found["spec"].get("nodeName")
    }


async def outcome_of(task: "asyncio.Future[object]") -> FailureCode | None:
    try:
        await asyncio.wait_for(task, 60)
    except EffectError as error:
        return error.failure
    return None


async def end(background: object) -> None:
    if isinstance(background, asyncio.Task):
        background.cancel()
        with suppress(asyncio.CancelledError, EffectError):
            await background


def state_of(environment: KubernetesEnvironment, ws: UUID) -> set[tuple[str, str, str]]:
    """Pods and claims of a workspace that are not being deleted: what, its name, its uid."""
    chosen = f"codehub.workspace={ws}"
    return {
        (kind, each["metadata"]["name"], each["metadata"]["uid"])
        for kind in ("pods", "persistentvolumeclaims")
        for each in environment.api.get(environment.path(kind), labelSelector=chosen)["items"]
        if "deletionTimestamp" not in each["metadata"]
    }
