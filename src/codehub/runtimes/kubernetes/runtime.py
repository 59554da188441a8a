"""Kubernetes runtime: workspaces as pods of one namespace. Fenced.

``KubernetesRuntime`` implements the protocol of ``runtimes/base``; each neighbouring module holds one mechanism, and
this one combines them. Every mutation is admitted first (``admission``) and acts on what the admission listed. No state
is kept between calls but hints, so any number of CodeHubs may use one cluster, and any of them may die anywhere.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Hashable, Mapping, Sequence
from contextlib import aclosing
from http import HTTPStatus
from uuid import UUID

import structlog

from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.base import (
    Address,
    FencingToken,
    LeftVolume,
    Observation,
    OnWait,
    ProgressCallback,
    ResourceLimits,
    StorageJob,
    StorageResult,
)
from codehub.runtimes.exec_stream import ExecStream, TerminalSize
from codehub.runtimes.kubernetes import fences
from codehub.runtimes.kubernetes.admission import EffectAdmission
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, NotFound
from codehub.runtimes.kubernetes.execs import PodExecs
from codehub.runtimes.kubernetes.exits import ExitWatch, OnExit
from codehub.runtimes.kubernetes.fences import Fences
from codehub.runtimes.kubernetes.homes import Homes, require_no_stranger
from codehub.runtimes.kubernetes.inventory import Pod, observation
from codehub.runtimes.kubernetes.jobs import Jobs
from codehub.runtimes.kubernetes.launches import Launches
from codehub.runtimes.kubernetes.left_volumes import list_left_volumes
from codehub.runtimes.kubernetes.manifests import Order, workspace_pod
from codehub.runtimes.kubernetes.marker import Marker
from codehub.runtimes.kubernetes.names import CONTAINER, Names, ObjectRole
from codehub.runtimes.kubernetes.observe import ClusterObserver
from codehub.runtimes.kubernetes.pods import Pods, no_check
from codehub.runtimes.kubernetes.probes import remove_old_probes
from codehub.runtimes.kubernetes.reasons import ending_of
from codehub.runtimes.kubernetes.settings import JobSettings, KubernetesSettings
from codehub.runtimes.kubernetes.starting import Starts
from codehub.runtimes.kubernetes.storage import StorageJobs

log = structlog.get_logger(__name__)

_LOG_LINES = "1000"


class KubernetesRuntime:
    """The Kubernetes runtime. Made in a running event loop; call ``prepare`` before use.

    ``on_exit`` is called, in the event loop, when the pod of a workspace has ended.
    """

    def __init__(
        self,
        installation_id: str,
        settings: KubernetesSettings,
        *,
        api: ApiClient,
        jobs: JobSettings,
        on_exit: OnExit | None = None,
    ) -> None:
        self._settings = settings
        self._names = Names(installation_id)
        self._api = api
        space = settings.namespace
        self._marker = Marker(api, self._names, namespace=space)
        self._observer = ClusterObserver(api, self._names, self._marker, namespace=space)
        self._fences = Fences(api, self._names, namespace=space)
        self._pods = Pods(api, namespace=space, gone_seconds=settings.gone_seconds)
        self._execs = PodExecs(api, self._pods, settings)
        self._homes = Homes(api, self._names, self._observer, settings)
        self._starts = Starts(
            api,
            self._pods,
            namespace=space,
            schedule_seconds=settings.schedule_seconds,
            start_seconds=settings.start_seconds,
        )
        self._admission = EffectAdmission(
            api, self._fences, self._marker, self._observer, self._pods, namespace=space
        )
        self._storage = StorageJobs(
            Jobs(api, self._names, self._pods, self._starts, settings=settings, jobs=jobs),
            names=self._names,
            admission=self._admission,
            observer=self._observer,
            pods=self._pods,
            homes=self._homes,
        )
        self._launches = Launches(
            self._names,
            settings,
            admission=self._admission,
            storage=self._storage,
            homes=self._homes,
            pods=self._pods,
            starts=self._starts,
        )
        self._exits = ExitWatch(api, self._names, on_exit, namespace=space)
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return "kubernetes"

    async def prepare(self, *, create: bool = True) -> None:
        """Start watching exits and sweeping fences. Succeeds with the API server away.

        ``create`` False: homes are known to exist, so a namespace without our mark is the wrong one.
        """
        if not create:
            self.forbid_marking()
        self._exits.start()
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep_periodically())

    def forbid_marking(self) -> None:
        """Never mark a namespace as ours; one without the mark counts as away."""
        self._marker.forbid_creation()

    async def check_manifests(self) -> None:
        """Try the pod of each image against the API server, without creating it.

        Raises ``ValueError`` if it is malformed, which only the settings can mend. A quota that is used up or a policy
        that refuses it may change, and is logged.
        """
        for image_ref, image in self._settings.images.items():
            order = Order(UUID(int=0), FencingToken(0, 0), image_ref, {}, self._settings.default_limits)
            manifest = workspace_pod(order, image=image, names=self._names, settings=self._settings)
            try:
                await self._api.create(self._pods.path(""), manifest, dry_run=True)
            except CallRefused as error:
                if error.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
                    raise ValueError(f"image {image_ref}: {error}") from error
                log.warning("the cluster would refuse a workspace", image=image_ref, error=str(error))
            except (Conflict, NotFound) as error:
                log.warning("a pod could not be tried", image=image_ref, error=str(error))

    async def close(self) -> None:
        if self._sweeping is not None:
            await cancel_and_wait([self._sweeping])
        await self._exits.close()
        await self._api.close()

    async def probe(self) -> None:
        """Raise if the API server is away, or the namespace lacks our mark and so holds other homes."""
        await self._marker.require()

    async def images(self) -> list[str]:
        return list(self._settings.images)

    def uses_base_path(self, image_ref: str) -> bool:
        """Whether the image serves below ``/w/{id}/``; else the proxy removes the prefix."""
        image = self._settings.images.get(image_ref)
        return image is not None and image.base_path

    # Observing

    async def observe(self, ids: Collection[UUID] | None = None) -> Observation:
        if ids is None:
            return observation(await self._observer.observe_all())
        return observation(await self._observer.observe_some(frozenset(ids)))

    async def left_volumes(self) -> list[LeftVolume]:
        """Volumes of homes that are gone; none where CodeHub may not list volumes."""
        return await list_left_volumes(self._api, namespace=self._settings.namespace) or []

    async def address(self, workspace_id: UUID) -> Address | None:
        pod = await self._find_pod(workspace_id)
        return pod.address if pod is not None and pod.is_running else None

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None:
        """The address of any port: the pod's network address is its own."""
        address = await self.address(workspace_id)
        return Address(address.host, port) if address is not None else None

    async def listener(self, workspace_id: UUID, address: Address) -> Hashable | None:
        """The address itself: only the pod's own processes can listen there."""
        return address

    async def ending(self, workspace_id: UUID) -> Ending | None:
        pod = await self._find_pod(workspace_id)
        if pod is None:
            return self._exits.find_ending(workspace_id)
        return ending_of(pod) if not pod.is_running else None

    async def logs(self, workspace_id: UUID, *, follow: bool = False) -> AsyncIterator[bytes]:
        """Recent output; ``follow`` ends with the container."""
        pod = await self._find_pod(workspace_id)
        if pod is None:
            return
        pieces = self._api.output(
            self._pods.path(pod.name, "log"), follow=follow, container=CONTAINER, tailLines=_LOG_LINES
        )
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except (NotFound, CallRefused):
            return  # removed, or its container was never started

    async def exec(
        self,
        workspace_id: UUID,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        tty: TerminalSize | None = None,
    ) -> ExecStream:
        pod = await self._find_pod(workspace_id)
        return await self._execs.run(pod, workspace_id, argv, env=env or {}, cwd=cwd, tty=tty)

    async def _find_pod(self, workspace_id: UUID) -> Pod | None:
        """The workspace's pod, if there is one and it is ours."""
        pod = await self._pods.find(self._names.pod(workspace_id))
        if pod is None:
            await self._marker.require()  # "none" is only valid in the namespace that holds our homes
            return None
        return pod if self._names.are_ours(pod.document, workspace_id, ObjectRole.WORKSPACE) else None

    # Homes

    async def provision(self, workspace_id: UUID, *, token: FencingToken, image_ref: str = "") -> None:
        async with self._admission.on(workspace_id, token) as resources:
            await self._storage.ensure_home(workspace_id, token, resources, image_ref=image_ref)

    async def delete_volume(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._admission.on(workspace_id, token, users=True) as resources:
            await self._storage.without_job(workspace_id, resources, token)
            if resources.pod is not None:
                raise EffectError(FailureCode.VOLUME_IN_USE, "a pod holds the volume")
            if resources.home is not None:
                require_no_stranger(resources.home.name, resources.strangers)
                check = self._admission.check(workspace_id, token)
                await check()
                await self._homes.delete(resources.home, workspace_id, check=check)

    # Pods

    async def start(
        self,
        workspace_id: UUID,
        *,
        token: FencingToken,
        image_ref: str,
        env: Mapping[str, str],
        limits: ResourceLimits,
        on_wait: OnWait = None,
    ) -> None:
        image = self._settings.images.get(image_ref)
        if image is None:
            raise EffectError(
                FailureCode.IMAGE_UNKNOWN,
                f"no image is called {image_ref!r}",
                known=list(self._settings.images),
            )
        wanted = self._settings.limits_of(limits)
        order = Order(workspace_id=workspace_id, token=token, image_ref=image_ref, env=env, limits=wanted)
        self._exits.forget(workspace_id)
        await self._launches.launch(order, image, on_wait=on_wait)

    async def stop(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._admission.on(workspace_id, token) as resources:
            if resources.pod is not None:
                await self._pods.remove(resources.pod, check=self._admission.check(workspace_id, token))

    async def remove_orphan_container(self, workspace_id: UUID) -> None:
        async with self._admission.alone_on(workspace_id):
            await self._marker.require()
            pod = (await self._observer.observe_one(workspace_id)).pod
            if pod is not None:
                await self._pods.remove(pod, check=no_check)

    async def stop_all(self) -> None:
        """Stop every pod of this installation, for ``codehub up``'s Ctrl-C.

        Volumes and desired states stay.
        """
        seen = await self.observe()
        running = [each for each, what in seen.sightings.items() if what.container is not ContainerState.NONE]
        await asyncio.gather(*(self.remove_orphan_container(each) for each in running))

    # Storage jobs

    async def run_storage_job(
        self,
        job: StorageJob,
        *,
        token: FencingToken,
        on_progress: ProgressCallback,
        on_wait: OnWait = None,
    ) -> StorageResult:
        return await self._storage.run(job, token, on_progress=on_progress, on_wait=on_wait)

    async def kill_storage_job(self, workspace_id: UUID, *, token: FencingToken) -> None:
        await self._storage.kill(workspace_id, token)

    async def _sweep_periodically(self) -> None:
        while True:
            await asyncio.sleep(fences.SWEEP_EVERY.total_seconds())
            try:
                await self._fences.sweep(in_use=set(await self._observer.observe_all()))
                await remove_old_probes(self._api, namespace=self._settings.namespace)
            except EffectError as error:
                log.info("old tokens and probes were not removed", error=error.message)
