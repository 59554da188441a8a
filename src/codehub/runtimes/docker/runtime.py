"""Docker runtime: workspaces as containers of one Docker engine. Fenced.

``DockerRuntime`` implements the protocol of ``runtimes/base``; each neighbouring module holds one mechanism, and
this one combines them. Every mutation holds the workspace's lock, admits the token and acts on what the admission
listed. No state is kept between calls but caches of the engine's own, so any number of CodeHubs may use one
engine, and any of them may die anywhere.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Hashable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from uuid import UUID

import structlog

from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.kit.tasks import cancel_and_wait, finish
from codehub.runtimes.base import (
    Address,
    FencingToken,
    Observation,
    OnWait,
    ProgressCallback,
    ResourceLimits,
    StorageJob,
    StorageKind,
    StorageResult,
)
from codehub.runtimes.docker import execs, fences
from codehub.runtimes.docker import names as labels
from codehub.runtimes.docker.acting import Acting
from codehub.runtimes.docker.containers import Containers, InsideGone, NetworkGone
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, Document, NotFound
from codehub.runtimes.docker.exits import ExitWatch, OnExit
from codehub.runtimes.docker.fences import Fences, is_recorded
from codehub.runtimes.docker.images import EngineImages
from codehub.runtimes.docker.inside_volume import InsideVolume
from codehub.runtimes.docker.inventory import Container, Resources, observation
from codehub.runtimes.docker.jobs import Jobs, in_use
from codehub.runtimes.docker.marker import Marker
from codehub.runtimes.docker.names import Names, ObjectRole
from codehub.runtimes.docker.network import PrivateNetwork
from codehub.runtimes.docker.observe import EngineObserver
from codehub.runtimes.docker.order import Order, container_config, image_labels, serves_base_path
from codehub.runtimes.docker.settings import DockerSettings, JobSettings
from codehub.runtimes.docker.users import require_no_stranger
from codehub.runtimes.exec_stream import ExecStream, TerminalSize

log = structlog.get_logger(__name__)

_LOG_LINES = 1000


class DockerRuntime:
    """The Docker runtime. Made in a running event loop; call ``prepare`` before use.

    ``on_exit`` is called, in the event loop, when a container of a workspace has ended.
    """

    def __init__(
        self,
        installation_id: str,
        settings: DockerSettings,
        *,
        jobs: JobSettings,
        on_exit: OnExit | None = None,
    ) -> None:
        self._settings = settings
        self._names = Names(installation_id)
        self._engine = DockerEngine(settings.engine_url, call_seconds=settings.call_seconds)
        self._marker = Marker(self._engine, self._names)
        self._observer = EngineObserver(self._engine, self._names, self._marker)
        self._fences = Fences(self._engine, self._names, self._observer)
        self._inside = InsideVolume(self._engine, self._names)
        self._containers = Containers(self._engine, self._names, self._fences, self._inside)
        self._network = PrivateNetwork(self._engine, self._names, given=settings.network)
        self._images = EngineImages(self._engine, settings.images)
        self._jobs = Jobs(self._engine, self._names, jobs)
        self._acting = Acting(self._fences, self._marker)
        self._exits = ExitWatch(self._engine, self._names, on_exit)
        self._base_paths: dict[str, bool] = {}
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return "docker"

    async def prepare(self, *, create: bool = True) -> None:
        """Start watching exits and sweeping fences. Succeeds with the engine away.

        ``create`` False: homes are known to exist, so an engine without our mark is the wrong one.
        """
        if not create:
            self._marker.forbid_creation()
        self._exits.start()
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep_periodically())

    async def close(self) -> None:
        if self._sweeping is not None:
            await cancel_and_wait([self._sweeping])
        await self._exits.close()
        await self._images.close()
        await self._engine.close()

    async def probe(self) -> None:
        """Raise if the engine is away, or lacks our mark and so holds other homes."""
        await self._engine.ping()
        await self._marker.require()

    async def images(self) -> list[str]:
        return list(self._images.allowed)

    def uses_base_path(self, image_ref: str) -> bool:
        """Whether the image serves below ``/w/{id}/``, by the labels ``address`` has read."""
        return self._base_paths.get(image_ref, False)

    # Observing

    async def observe(self, ids: Collection[UUID] | None = None) -> Observation:
        if ids is None:
            found = await self._observer.observe_all()
        else:
            found = await self._observer.observe_some(frozenset(ids))
        for resources in found.values():
            self._learn_base_path(resources.container)
        return observation(found)

    async def address(self, workspace_id: UUID) -> Address | None:
        container = await self._find_container(workspace_id)
        self._learn_base_path(container)
        return container.address if container is not None and container.is_running else None

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None:
        """The address of any port: the container's network address is its own."""
        address = await self.address(workspace_id)
        return Address(address.host, port) if address is not None else None

    async def listener(self, workspace_id: UUID, address: Address) -> Hashable | None:
        """The address itself: only the container's own processes can listen there."""
        return address

    async def ending(self, workspace_id: UUID) -> Ending | None:
        container = await self._find_container(workspace_id)
        return container.ending if container is not None and not container.is_running else None

    async def logs(self, workspace_id: UUID, *, follow: bool = False) -> AsyncIterator[bytes]:
        """Recent output; ``follow`` ends with the container."""
        container = await self._find_container(workspace_id)
        if container is None:
            return
        try:
            pieces = self._engine.output(container.id, follow=follow, tail=_LOG_LINES)
            async with aclosing(pieces):
                async for _, piece in pieces:
                    yield piece
        except NotFound:
            return
        except CallRefused as error:
            raise EffectError(FailureCode.DOCKER_API_ERROR, str(error)) from error

    async def exec(
        self,
        workspace_id: UUID,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        tty: TerminalSize | None = None,
    ) -> ExecStream:
        container = await self._find_container(workspace_id)
        return await execs.run(self._engine, container, workspace_id, argv, env=env or {}, cwd=cwd, tty=tty)

    async def _find_container(self, workspace_id: UUID) -> Container | None:
        container = await self._containers.find(workspace_id)
        if container is None:
            await self._marker.require()  # "none" is only valid on the engine that holds our homes
        return container

    # Volumes

    async def provision(self, workspace_id: UUID, *, token: FencingToken, image_ref: str = "") -> None:
        async with self._acting.alone_on(workspace_id):
            resources = await self._fences.verify(workspace_id, token)
            if not resources.home and await self._make_volume(workspace_id, token):
                return  # the volume carries our token: created and recorded in one step
            async with self._acting.admitted(workspace_id, token) as admitted:
                if not admitted.home:
                    await self._make_volume(workspace_id, token)

    async def delete_volume(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._acting.on(workspace_id, token) as resources:
            await self._without_job(resources, token)
            if resources.container is not None:
                raise EffectError(FailureCode.VOLUME_IN_USE, "a container holds the volume")
            if resources.home:
                require_no_stranger(self._names.home(workspace_id), resources, even_stopped=True)
                await self._fences.verify(workspace_id, token)
                await self._remove_volume(workspace_id)

    # Containers

    async def start(
        self,
        workspace_id: UUID,
        *,
        token: FencingToken,
        image_ref: str,
        env: Mapping[str, str],
        limits: ResourceLimits,
        on_wait: OnWait = None,  # nothing waits: there is one node
    ) -> None:
        self._images.require_allowed(image_ref)
        order = Order(
            workspace_id=workspace_id,
            token=token,
            image_ref=image_ref,
            env=env,
            limits=limits.or_default(self._settings.default_limits),
            base_path=self._settings.base_path.format(id=workspace_id),
            stop_grace_seconds=self._settings.stop_grace_seconds,
        )
        async with self._acting.alone_on(workspace_id):
            resources, image = await asyncio.gather(
                self._fences.verify(workspace_id, token), self._images.find(image_ref)
            )
            if image is not None and resources.is_asleep and not is_recorded(token, resources):
                # Nothing to clean up first: the token is recorded while the container is created. Fences it
                # outranks are left to the next stop, when no person waits.
                await self._start(order, image, record=True)
                return
            async with self._acting.admitted(workspace_id, token) as admitted:
                await self._clean_up_and_start(order, admitted)

    async def stop(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._acting.on(workspace_id, token) as resources:
            await self._end(resources.container)

    async def remove_orphan_container(self, workspace_id: UUID) -> None:
        async with self._acting.alone_on(workspace_id):
            await self._end((await self._observer.observe_one(workspace_id)).container)

    async def stop_all(self) -> None:
        """Stop every container of ours, for ``codehub up``; volumes and desired states stay."""
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
        made_volume = done = False
        try:
            async with self._acting.on(job.workspace_id, token) as resources:
                made_volume = await self._prepare_job(job, resources, token)
                container_id = await self._jobs.create(job, token)
                await self._jobs.start(container_id, job)
            result = await self._jobs.follow(container_id, on_progress=on_progress)
            # A stranger that mounted the home meanwhile may have written what is in no archive, or into a restore.
            resources = await self._fences.verify(job.workspace_id, token)
            require_no_stranger(self._names.home(job.workspace_id), resources)
            done = True
            return result
        except EffectError as error:
            if error.failure is not FailureCode.DOCKER_API_ERROR:
                # It may not have failed, but been ended by a newer token: then this raises STALE_TOKEN.
                await self._fences.verify(job.workspace_id, token)
            raise
        finally:
            await finish(self._end_job(job, token, remove_volume=made_volume and not done))

    async def kill_storage_job(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._acting.on(workspace_id, token) as resources:
            if resources.job is not None:
                await self._containers.remove(resources.job.id)

    async def _prepare_job(self, job: StorageJob, resources: Resources, token: FencingToken) -> bool:
        """Check that the job may run, and create the volume of a restore. True: created here."""
        if resources.container is not None and resources.container.is_running:
            raise EffectError(FailureCode.VOLUME_IN_USE, "the workspace is running")
        if job.kind is StorageKind.ARCHIVE and not resources.home:
            raise EffectError(FailureCode.VOLUME_MISSING, "there is no volume to archive")
        require_no_stranger(self._names.home(job.workspace_id), resources)
        await self._without_job(resources, token, may_end_equal=True)
        await self._images.get(self._jobs.image)
        await self._fences.verify(job.workspace_id, token)
        if resources.home:
            return False
        await self._make_volume(job.workspace_id, token)
        return True

    async def _end_job(self, job: StorageJob, token: FencingToken, *, remove_volume: bool) -> None:
        """Remove our job, and the empty volume of a restore that failed.

        Found by its labels, because a call that is cancelled while the engine creates the container never
        gets its id. With the engine away this fails, and the next job of this workspace does it. A crash here
        leaves a volume without a restore marker, which is not trusted and which the next restore fills.
        """
        with suppress(EffectError):
            async with self._acting.alone_on(job.workspace_id):
                resources = await self._observer.observe_one(job.workspace_id)
                if resources.job is not None and resources.job.token == token:
                    await self._containers.remove(resources.job.id)
                if remove_volume and token == resources.highest_token:
                    await self._remove_volume(job.workspace_id)

    # Helpers of the calls above

    async def _without_job(
        self, resources: Resources, token: FencingToken, *, may_end_equal: bool = False
    ) -> None:
        """Remove the storage job, dead or alive; raise if it runs and is not outranked."""
        job = resources.job
        if job is None:
            return
        outranked = job.token < token or (may_end_equal and job.token == token)
        if job.is_running and not outranked:
            raise in_use(job.token)
        await self._containers.remove(job.id)

    async def _make_volume(self, workspace_id: UUID, token: FencingToken) -> bool:
        """Create the home. True: it carries our token; False: another process created it meanwhile."""
        name = self._names.home(workspace_id)
        wanted = self._names.labels(workspace_id, ObjectRole.HOME, token)
        try:
            made = await self._engine.create_volume(name, labels=wanted, driver=self._settings.volume_driver)
        except (CallRefused, Conflict, NotFound) as error:
            raise EffectError(FailureCode.VOLUME_CREATE_FAILED, str(error)) from error
        if not self._names.are_ours(made.get("Labels"), workspace_id, ObjectRole.HOME):
            raise EffectError(
                FailureCode.VOLUME_CREATE_FAILED,
                f"a volume called {name} exists and is not of this installation; it was left alone",
            )
        return labels.find_token(made.get("Labels")) == token

    async def _remove_volume(self, workspace_id: UUID) -> None:
        try:
            await self._engine.remove_volume(self._names.home(workspace_id))
        except NotFound:
            return
        except (Conflict, CallRefused) as error:
            raise EffectError(FailureCode.VOLUME_IN_USE, str(error)) from error

    async def _clean_up_and_start(self, order: Order, resources: Resources) -> None:
        await self._without_job(resources, order.token)
        if not resources.home:
            raise EffectError(FailureCode.VOLUME_MISSING, "there is no volume to start on")
        if resources.container is not None and resources.container.is_running:
            return
        require_no_stranger(self._names.home(order.workspace_id), resources)
        await self._start(order, await self._images.get(order.image_ref))

    async def _start(self, order: Order, image: Document, *, record: bool = False) -> None:
        self._base_paths[order.image_ref] = serves_base_path(image_labels(image))
        for last in (False, True):
            network = await self._network.get()
            order = replace(order, inside=await self._inside.get(order.image_ref))
            config = container_config(order, image=image, names=self._names, network=network)
            try:
                await self._containers.launch(
                    order, config, settle_seconds=self._settings.settle_seconds, record=record
                )
            except (NetworkGone, InsideGone) as error:
                self._network.forget()
                self._inside.forget()
                record = False
                if last:
                    raise EffectError(FailureCode.CONTAINER_START_FAILED, str(error)) from error
            else:
                return

    async def _end(self, container: Container | None) -> None:
        if container is not None:
            await self._containers.end(container.id, grace_seconds=self._settings.stop_grace_seconds)

    def _learn_base_path(self, container: Container | None) -> None:
        if container is not None and labels.IMAGE in container.labels:
            self._base_paths[container.labels[labels.IMAGE]] = serves_base_path(container.labels)

    async def _sweep_periodically(self) -> None:
        while True:
            try:
                await self._fences.sweep()
                await self._inside.sweep()
            except EffectError as error:
                log.info("old tokens were not removed", error=error.message)
            await asyncio.sleep(fences.SWEEP_EVERY.total_seconds())
