"""Run storage jobs as pods of CodeHub's image: archive or restore a home.

A job runs as the same user as workspaces, which owns every file of a home here, so it needs no privilege. Its name is
the lock: there is never more than one per workspace. A job whose CodeHub died continues; the next one with a token
at least as high ends it first and, if it had got so far, finds its committed archive.

The order and the credentials are in a Secret that belongs to the pod and goes with it. The answer is read from the
pod's log: a connection that breaks or says nothing for long is opened again, and the log is still there.
"""

import asyncio
from collections import deque
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.base import FencingToken, OnWait, ProgressCallback, StorageJob, StorageResult
from codehub.runtimes.job_protocol import find_message, find_progress, outcome
from codehub.runtimes.kubernetes.client import (
    ApiClient,
    CallRefused,
    Conflict,
    NotFound,
    SilentStream,
    namespaced,
)
from codehub.runtimes.kubernetes.inventory import Pod
from codehub.runtimes.kubernetes.manifests import job_pod, job_secret
from codehub.runtimes.kubernetes.names import JOB_CONTAINER, Names
from codehub.runtimes.kubernetes.pods import Check, Pods
from codehub.runtimes.kubernetes.reasons import ending_of, refusal
from codehub.runtimes.kubernetes.settings import JobSettings, KubernetesSettings
from codehub.runtimes.kubernetes.starting import Starts

_KEPT_LINES = 40
_PAUSE_SECONDS = 0.5


class Jobs:
    def __init__(
        self,
        api: ApiClient,
        names: Names,
        pods: Pods,
        starts: Starts,
        *,
        settings: KubernetesSettings,
        jobs: JobSettings,
    ) -> None:
        self._api = api
        self._names = names
        self._pods = pods
        self._starts = starts
        self._settings = settings
        self._jobs = jobs

    async def create(self, job: StorageJob, token: FencingToken) -> Pod:
        """Create the job's pod, gated, and the Secret it needs. The caller has freed its name.

        A crash after the pod leaves one that never starts; the next job of this workspace removes it.
        """
        name = f"{self._names.job(job.workspace_id)}-{uuid4().hex[:8]}"
        manifest = job_pod(
            job, token, secret=name, names=self._names, settings=self._settings, jobs=self._jobs
        )
        pod = await self._pods.create(manifest)
        if pod is None:
            raise EffectError(FailureCode.VOLUME_IN_USE, "another storage job has begun meanwhile")
        secret = job_secret(job, name=name, pod_uid=pod.uid, names=self._names, jobs=self._jobs)
        try:
            await self._api.create(namespaced(self._settings.namespace, "secrets"), secret)
        except CallRefused as error:
            raise refusal(error, what="The storage job's order") from error
        except (Conflict, NotFound) as error:
            raise _failed(f"the storage job's order could not be stored: {error}") from error
        return pod

    async def follow(
        self, pod: Pod, *, on_progress: ProgressCallback, on_wait: OnWait, check: Check
    ) -> StorageResult:
        """Read the job's messages until it has ended; its result."""
        pod = await self._starts.wait_until_started(pod, on_wait=on_wait)
        final: dict[str, Any] | None = None
        tail: list[str] = []
        away_since: float | None = None
        while True:
            try:
                final, tail = await self._read(pod, on_progress=on_progress)
                pod = await self._ended(pod, seconds=1.0)
                if pod.has_ended:
                    break
                await check()
                away_since = None
            except EffectError as error:
                if error.failure is not FailureCode.K8S_API_ERROR:
                    raise
                # The job goes on without us: an API server that restarts must not cost an hour's work.
                away_since = away_since or monotonic()
                if monotonic() - away_since > self._jobs.away_seconds:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)
        if final is None:  # the end of the log may have been written after it was read
            final, tail = await self._read(pod, on_progress=on_progress, follow=False)
        ending = ending_of(pod)
        if final is None and ending is not None and ending.failure is not FailureCode.CONTAINER_ENDED:
            raise EffectError(ending.failure, f"The storage job {ending.words}.", output=tail)
        exit_code = ending.exit_code if ending is not None else None
        return outcome(final, exit_code=-1 if exit_code is None else exit_code, output=tail)

    async def _ended(self, pod: Pod, *, seconds: float) -> Pod:
        async with aclosing(self._pods.follow(pod, seconds=seconds)) as states:
            async for current in states:
                if current is None:
                    raise _failed("the storage job's pod was removed")
                pod = current
                if pod.has_ended:
                    break
        return pod

    async def _read(
        self, pod: Pod, *, on_progress: ProgressCallback, follow: bool = True
    ) -> tuple[dict[str, Any] | None, list[str]]:
        """The final message, if there was one, and the last lines of everything else."""
        final: dict[str, Any] | None = None
        tail: deque[str] = deque(maxlen=_KEPT_LINES)
        rest = b""
        try:
            output = self._api.output(
                self._pods.path(pod.name, "log"),
                follow=follow,
                container=JOB_CONTAINER,
                silent_seconds=self._jobs.silent_seconds if follow else None,
            )
            async with aclosing(output) as pieces:
                async for piece in pieces:
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        message = find_message(line)
                        if message is None:
                            tail.append(line.decode(errors="replace"))
                        elif (progress := find_progress(message)) is not None:
                            await on_progress(progress)
                        else:
                            final = message
        except NotFound:
            raise _failed("the storage job's pod was removed") from None
        except SilentStream:
            return final, list(tail)  # whether the API server answers is seen at the next look at the pod
        except CallRefused:
            return None, list(tail)  # its container is not there yet, or not any more
        return final, list(tail)


def in_use(job_token: FencingToken) -> EffectError:
    return EffectError(
        FailureCode.VOLUME_IN_USE,
        "a storage job is using the volume",
        job_token=[job_token.op_seq, job_token.epoch],
    )


def _failed(why: str) -> EffectError:
    return EffectError(FailureCode.STORAGE_JOB_FAILED, why)
