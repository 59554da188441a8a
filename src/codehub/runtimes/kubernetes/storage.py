"""Archive and restore homes: admit a storage job, run it, end it. Fenced.

A job's pod is created like a workspace's: gated, and released after the fence was read again. It is gone when ``run``
returns, however that ends.
"""

from contextlib import suppress
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.tasks import finish
from codehub.runtimes.base import (
    FencingToken,
    OnWait,
    ProgressCallback,
    StorageJob,
    StorageKind,
    StorageResult,
)
from codehub.runtimes.kubernetes.admission import EffectAdmission
from codehub.runtimes.kubernetes.homes import Homes, require_no_stranger, tell_home_node
from codehub.runtimes.kubernetes.inventory import Home, Pod, Resources
from codehub.runtimes.kubernetes.jobs import Jobs, in_use
from codehub.runtimes.kubernetes.names import Names
from codehub.runtimes.kubernetes.observe import ClusterObserver
from codehub.runtimes.kubernetes.pods import Pods, no_check

_TRIES = 5


class StorageJobs:
    def __init__(
        self,
        jobs: Jobs,
        *,
        names: Names,
        admission: EffectAdmission,
        observer: ClusterObserver,
        pods: Pods,
        homes: Homes,
    ) -> None:
        self._jobs = jobs
        self._names = names
        self._admission = admission
        self._observer = observer
        self._pods = pods
        self._homes = homes

    async def run(
        self,
        job: StorageJob,
        token: FencingToken,
        *,
        on_progress: ProgressCallback,
        on_wait: OnWait = None,
    ) -> StorageResult:
        """Run a storage job to its end."""
        made_home = done = False
        pod: Pod | None = None
        home: Home | None = None
        check = self._admission.check(job.workspace_id, token)
        try:
            async with self._admission.on(job.workspace_id, token, users=True) as resources:
                made_home = await self._prepare_job(job, resources, token)
                home = resources.home
                pod = await self._jobs.create(job, token)
                await check()
                pod = await self._pods.release(pod, check=check)
            result = await self._jobs.follow(pod, on_progress=on_progress, on_wait=on_wait, check=check)
            await check()
            # A stranger that came meanwhile may have written what is in no archive, or into a restore.
            resources = await self._observer.observe_one(job.workspace_id, users=True)
            require_no_stranger(self._names.home(job.workspace_id), resources.strangers)
            done = True
            return result
        except EffectError as error:
            if error.failure is not FailureCode.K8S_API_ERROR:
                # It may not have failed, but been ended by a newer token: then this raises STALE_TOKEN.
                await check()
            tell_home_node(home, error)
            raise
        finally:
            await finish(self._end_job(job, token, pod, remove_home=made_home and not done))

    async def kill(self, workspace_id: UUID, token: FencingToken) -> None:
        async with self._admission.on(workspace_id, token) as resources:
            if resources.job is not None:
                await self._pods.remove(resources.job, check=self._admission.check(workspace_id, token))

    async def _prepare_job(self, job: StorageJob, resources: Resources, token: FencingToken) -> bool:
        """Check that the job may run, and create the home of a restore. True: created here."""
        if resources.pod is not None and (resources.pod.may_run or resources.pod.terminating):
            raise EffectError(FailureCode.VOLUME_IN_USE, "the workspace is running")
        if job.kind is StorageKind.ARCHIVE and resources.home is None:
            raise EffectError(FailureCode.VOLUME_MISSING, "there is no volume to archive")
        require_no_stranger(self._names.home(job.workspace_id), resources.strangers)
        await self.without_job(job.workspace_id, resources, token, may_end_equal=True)
        await self._without_tied_home(job, resources, token)
        made = resources.home is None
        await self.ensure_home(job.workspace_id, token, resources, image_ref=job.image_ref)
        return made

    async def _without_tied_home(self, job: StorageJob, resources: Resources, token: FencingToken) -> None:
        """Delete the claim of a node-local home that is about to be restored: its node may be lost, or full.

        A restore fills volumes that are not trusted only, whose archive is committed or which their person gave up. A
        crash after this leaves no claim, and the next restore makes one.
        """
        home = resources.home
        if job.kind is not StorageKind.RESTORE or home is None or not home.node_local:
            return
        check = self._admission.check(job.workspace_id, token)
        await check()
        await self._homes.delete(home, job.workspace_id, check=check)
        resources.home = None

    async def _end_job(
        self, job: StorageJob, token: FencingToken, pod: Pod | None, *, remove_home: bool
    ) -> None:
        """Remove our job, and the empty home of a restore that failed.

        Found by its token if need be: a call that is cancelled while the pod is created never gets its uid. With
        the API server away this fails, and the next job of this workspace does it. A crash here leaves a home
        without a restore marker, which is not trusted and which the next restore fills.
        """
        check = self._admission.check(job.workspace_id, token)
        with suppress(EffectError):
            async with self._admission.alone_on(job.workspace_id):
                resources = await self._observer.observe_one(job.workspace_id)
                found = resources.job
                if found is not None and (found.uid == pod.uid if pod is not None else found.token == token):
                    await self._pods.remove(found, check=no_check)
                if remove_home and resources.home is not None and resources.home.token == token:
                    await check()
                    await self._homes.delete(resources.home, job.workspace_id, check=check)

    async def without_job(
        self, workspace_id: UUID, resources: Resources, token: FencingToken, *, may_end_equal: bool = False
    ) -> None:
        """Remove the storage job, dead or alive; raise if it runs and is not outranked."""
        job = resources.job
        if job is None:
            return
        outranked = job.token < token or (may_end_equal and job.token == token)
        if not job.has_ended and not outranked:
            raise in_use(job.token)
        await self._pods.remove(job, check=self._admission.check(workspace_id, token))

    async def ensure_home(
        self, workspace_id: UUID, token: FencingToken, resources: Resources, *, image_ref: str
    ) -> None:
        """Create the home unless there is one; either way it carries our token afterwards."""
        home = resources.home
        for _ in range(_TRIES):
            if home is not None and home.terminating:
                await self._homes.wait_until_gone(home, workspace_id)
                home = None
            if home is None:
                check = self._admission.check(workspace_id, token)
                home = await self._homes.create(workspace_id, token, image_ref=image_ref, check=check)
            if home.terminating:
                continue
            # Created by an older leader meanwhile, it is deleted by that one again unless we stamp it.
            home = await self._admission.stamp_home(home, workspace_id, token)
            if home is not None:
                resources.home = home
                return
        raise EffectError(FailureCode.VOLUME_CREATE_FAILED, "the home's claim was removed again and again")
