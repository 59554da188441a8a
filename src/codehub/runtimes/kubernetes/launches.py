"""Launch a workspace's pod: made behind its gate, checked, released, waited for. Idempotent, fenced.

The order of the calls is that of ``fences``. Two things are done side by side because neither can do harm: the gated
pod is created while we look, as it uses nothing; and the home is stamped while the fence is read again.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import OnWait
from codehub.runtimes.kubernetes import fences
from codehub.runtimes.kubernetes.admission import EffectAdmission
from codehub.runtimes.kubernetes.catalogue import Image
from codehub.runtimes.kubernetes.homes import Homes, require_no_stranger, taken, tell_home_node
from codehub.runtimes.kubernetes.inventory import Home, Pod, Resources
from codehub.runtimes.kubernetes.manifests import Order, workspace_pod
from codehub.runtimes.kubernetes.names import Names, ObjectRole
from codehub.runtimes.kubernetes.pods import Check, Pods
from codehub.runtimes.kubernetes.settings import KubernetesSettings
from codehub.runtimes.kubernetes.starting import Starts
from codehub.runtimes.kubernetes.storage import StorageJobs

_TRIES = 5


class Launches:
    def __init__(
        self,
        names: Names,
        settings: KubernetesSettings,
        *,
        admission: EffectAdmission,
        storage: StorageJobs,
        homes: Homes,
        pods: Pods,
        starts: Starts,
    ) -> None:
        self._names = names
        self._settings = settings
        self._admission = admission
        self._storage = storage
        self._homes = homes
        self._pods = pods
        self._starts = starts

    async def launch(self, order: Order, image: Image, *, on_wait: OnWait) -> None:
        """Return when the workspace's pod runs; one that runs already is kept.

        A crash after the creation leaves a gated pod: the same token goes on with it, a newer one deletes it.
        """
        made: list[Pod] = []

        async def create() -> None:
            if (pod := await self._create(order, image)) is not None:
                made.append(pod)

        try:
            # The pod is created while we look: behind its gate it uses nothing, whatever we find.
            async with self._admission.on(
                order.workspace_id, order.token, users=True, stamp=False, beside=create
            ) as resources:
                await self._start_on(resources, order, image, made, on_wait)
        except EffectError as error:
            if made and error.failure is not FailureCode.K8S_API_ERROR:
                with suppress(EffectError):  # what failed first is what people need to know
                    await self._discard(made[0], check=self._admission.check(order.workspace_id, order.token))
            raise

    async def _start_on(
        self, resources: Resources, order: Order, image: Image, made: Sequence[Pod], on_wait: OnWait
    ) -> None:
        """Start on what was found, with the gated pod that was made meanwhile if its name was free."""
        stamping = asyncio.ensure_future(self._stamp_home(resources.home, order))
        try:
            await self._storage.without_job(order.workspace_id, resources, order.token)
            if resources.home is None or resources.home.terminating:
                await stamping  # raises
            require_no_stranger(self._names.home(order.workspace_id), resources.strangers)
            pod = resources.pod or (made[0] if made else None)
            await self._start(order, image, pod, stamping, on_wait)
        except EffectError as error:
            tell_home_node(resources.home, error)
            raise
        finally:
            await asyncio.gather(stamping, return_exceptions=True)

    async def _create(self, order: Order, image: Image) -> Pod | None:
        manifest = workspace_pod(order, image=image, names=self._names, settings=self._settings)
        return await self._pods.create(manifest)

    async def _stamp_home(self, home: Home | None, order: Order) -> None:
        """Put our token on the home; raise if there is none to start on."""
        if home is not None and not home.terminating:
            home = await self._admission.stamp_home(home, order.workspace_id, order.token)
        if home is not None and not home.terminating:
            await self._homes.grow(home, image_ref=order.image_ref)
        if home is None or home.terminating:
            said = "there is no volume" if home is None else "the volume is being deleted"
            raise EffectError(FailureCode.VOLUME_MISSING, f"{said}: nothing to start on")

    async def _start(
        self,
        order: Order,
        image: Image,
        pod: Pod | None,
        stamping: "asyncio.Future[None]",
        on_wait: OnWait,
    ) -> None:
        check = self._admission.check(order.workspace_id, order.token)
        for _ in range(_TRIES):
            if pod is not None and pod.is_running and not pod.terminating:
                await stamping
                await self._pods.stamp(pod, order.token, check=check)
                return
            if pod is not None and (pod.terminating or pod.has_ended or pod.token != order.token):
                await self._pods.remove(pod, check=check)
                pod = None
            if pod is None:
                pod = await self._create(order, image)
            if pod is not None:
                await self._bring_up(order, pod, stamping, on_wait)
                return
            pod = await self._squatter(order)
        raise EffectError(FailureCode.CONTAINER_START_FAILED, "the pod's name is taken again and again")

    async def _squatter(self, order: Order) -> Pod | None:
        """The pod that has our name; raises if it is not ours, or of a newer leader."""
        name = self._names.pod(order.workspace_id)
        pod = await self._pods.find(name)
        if pod is not None:
            if not self._names.are_ours(pod.document, order.workspace_id, ObjectRole.WORKSPACE):
                raise taken(name, kind="A pod")
            fences.require_not_above(order.token, pod.token)
        return pod

    async def _bring_up(
        self, order: Order, pod: Pod, stamping: "asyncio.Future[None]", on_wait: OnWait
    ) -> None:
        """Release a pod, unless that was done, and wait until it runs. One that fails to is removed.

        Cancelled, or with the API server away, the pod is left: the next start with this token goes on with it.
        """
        check = self._admission.check(order.workspace_id, order.token)
        try:
            # Side by side: the fence is read after the pod exists, and the home is stamped before anything uses it.
            for failure in await asyncio.gather(check(), stamping, return_exceptions=True):
                if failure is not None:
                    raise failure
            if pod.gated:
                pod = await self._pods.release(pod, check=check)
            started = await self._starts.wait_until_started(pod, on_wait=on_wait)
            if started.has_ended:
                raise await self._starts.report(started)
            await self._starts.settle(started, seconds=self._settings.settle_seconds)
        except EffectError as error:
            if error.failure is not FailureCode.K8S_API_ERROR:
                with suppress(EffectError):  # what failed first is what people need to know
                    await self._discard(pod, check=check)
            raise

    async def _discard(self, pod: Pod, *, check: Check) -> None:
        """Remove a pod of our own that failed to start, unless a newer leader has changed it."""
        current = await self._pods.find(pod.name)
        if current is not None and current.uid == pod.uid and current.token == pod.token:
            await self._pods.remove(current, check=check)
