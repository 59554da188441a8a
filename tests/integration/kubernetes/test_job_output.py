"""Following a storage job: a job that says nothing, an API server that is away for a moment, and one that freezes."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.kubernetes.access import Access
from codehub.runtimes.kubernetes.client import ApiClient
from codehub.runtimes.kubernetes.runtime import KubernetesRuntime
from tests.contract.runtime_suite import FIRST, running_job
from tests.support.kubernetes_environment import KubernetesEnvironment
from tests.support.waiting import until

START_SECONDS = 120.0


class Client(ApiClient):
    """Counts how often output was asked for, and waits for no call as long as usual."""

    opened = 0

    def __init__(self, access: Access) -> None:
        super().__init__(access, call_seconds=3)

    def output(self, path: str, **more: Any) -> AsyncGenerator[bytes, None]:
        self.opened += 1
        return super().output(path, **more)


class Following:
    """A runtime whose client is at hand, and that is patient for ``away_seconds``."""

    def __init__(self, environment: KubernetesEnvironment, *, away_seconds: float) -> None:
        self._environment = environment
        self._jobs = replace(environment.jobs, silent_seconds=1, away_seconds=away_seconds)
        self.client: Client | None = None

    async def open(self, ws: UUID) -> KubernetesRuntime:
        runtime = await self._environment.open(make_api=self._make_client, jobs=self._jobs)
        await runtime.provision(ws, token=FIRST)
        await self._environment.let_jobs(ws, "slow")
        return runtime

    def _make_client(self, access: Access) -> Client:
        self.client = Client(access)
        return self.client

    async def until_asked_again(self, times: int = 2) -> None:
        assert self.client is not None
        client, before = self.client, self.client.opened
        await until(lambda: client.opened >= before + times, seconds=120, what="output to be asked for again")


async def test_a_job_that_says_nothing_goes_on(environment: KubernetesEnvironment, ws: UUID) -> None:
    following = Following(environment, away_seconds=0)
    runtime = await following.open(ws)
    job = await running_job(runtime, ws, token=FIRST, seconds=START_SECONDS)
    await following.until_asked_again(3)
    assert not job.done()
    await cancel_and_wait([job])


async def test_a_job_outlives_an_api_server_that_is_away_for_a_moment(
    environment: KubernetesEnvironment, ws: UUID
) -> None:
    following = Following(environment, away_seconds=600)
    runtime = await following.open(ws)
    job = await running_job(runtime, ws, token=FIRST, seconds=START_SECONDS)
    pod = environment.api.get(environment.path("pods", f"ws-{ws}-job"))["metadata"]["uid"]
    await environment.break_engine()
    await following.until_asked_again()
    await environment.mend_engine()
    await following.until_asked_again()
    assert not job.done()
    assert environment.api.get(environment.path("pods", f"ws-{ws}-job"))["metadata"]["uid"] == pod
    await cancel_and_wait([job])


async def test_a_frozen_api_server_is_noticed(environment: KubernetesEnvironment, ws: UUID) -> None:
    following = Following(environment, away_seconds=2)
    runtime = await following.open(ws)
    job = await running_job(runtime, ws, token=FIRST, seconds=START_SECONDS)
    await environment.freeze_engine()
    with pytest.raises(EffectError) as raised:
        await job
    assert raised.value.failure is FailureCode.K8S_API_ERROR
    await environment.mend_engine()
