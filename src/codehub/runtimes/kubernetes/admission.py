"""Admit a mutation of a workspace: hold its lock, raise the fence, look, stamp the home. Fenced.

``fences`` tells why the order is safe. A gated pod of an older leader is deleted here: nobody may release it any more.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import FencingToken
from codehub.runtimes.kubernetes.client import ApiClient, Conflict, NotFound, namespaced
from codehub.runtimes.kubernetes.fences import Fences, require_not_above
from codehub.runtimes.kubernetes.inventory import Home, Pod, Resources, read_home
from codehub.runtimes.kubernetes.marker import Marker
from codehub.runtimes.kubernetes.names import TOKEN, token_text, unchanged
from codehub.runtimes.kubernetes.observe import ClusterObserver
from codehub.runtimes.kubernetes.pods import Check, Pods
from codehub.runtimes.workspace_locks import WorkspaceLocks

_TRIES = 20


class EffectAdmission:
    """Locks and admits mutations of workspaces."""

    def __init__(
        self,
        api: ApiClient,
        fences: Fences,
        marker: Marker,
        observer: ClusterObserver,
        pods: Pods,
        *,
        namespace: str,
    ) -> None:
        self._api = api
        self._fences = fences
        self._marker = marker
        self._observer = observer
        self._pods = pods
        self._namespace = namespace
        self._locks = WorkspaceLocks()

    @asynccontextmanager
    async def alone_on(self, workspace_id: UUID) -> AsyncIterator[None]:
        """Hold the workspace's lock within this process; between processes there are the fences."""
        async with self._locks.hold(workspace_id):
            yield

    @asynccontextmanager
    async def on(
        self,
        workspace_id: UUID,
        token: FencingToken,
        *,
        users: bool = False,
        stamp: bool = True,
        beside: Callable[[], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Resources]:
        """Hold the workspace's lock with an admitted token; yields what exists.

        ``users``: also who else uses the home. ``stamp`` False: the caller stamps the home, before anything uses it.
        ``beside``: done while we look, because it does no harm whatever is found. A failure is ``STALE_TOKEN`` if a
        newer leader has caused it.
        """
        async with self.alone_on(workspace_id):
            # Together: in a namespace that is not ours a fence does no harm.
            done = await asyncio.gather(
                self._marker.require(), self._fences.raise_to(workspace_id, token), return_exceptions=True
            )
            for failure in filter(None, done):
                raise failure
            try:
                looking = self._look(workspace_id, token, users=users)
                resources = await (looking if beside is None else _both(looking, beside()))
                if stamp and resources.home is not None:
                    resources.home = await self.stamp_home(resources.home, workspace_id, token)
                yield resources
            except EffectError as error:
                if error.failure not in (FailureCode.K8S_API_ERROR, FailureCode.STALE_TOKEN):
                    await self._fences.verify(workspace_id, token)
                raise

    def check(self, workspace_id: UUID, token: FencingToken) -> Check:
        return partial(self._fences.verify, workspace_id, token)

    async def _look(self, workspace_id: UUID, token: FencingToken, *, users: bool) -> Resources:
        resources = await self._observer.observe_one(workspace_id, users=users)
        # Frozen between the fence and this look, we would take a newer leader's pods for what we are to act on.
        require_not_above(token, resources.highest_token)
        resources.pod = await self._without_gated(resources.pod, workspace_id, token)
        resources.job = await self._without_gated(resources.job, workspace_id, token)
        return resources

    async def _without_gated(self, pod: Pod | None, workspace_id: UUID, token: FencingToken) -> Pod | None:
        if pod is None or not pod.gated or pod.token >= token:
            return pod
        await self._pods.remove(pod, check=self.check(workspace_id, token))
        return None

    async def stamp_home(self, home: Home, workspace_id: UUID, token: FencingToken) -> Home | None:
        """Put our token on the home, so that an older leader's deletion finds it changed."""
        path = namespaced(self._namespace, "persistentvolumeclaims", home.name)
        for _ in range(_TRIES):
            if home.token >= token:
                return home
            metadata = unchanged(home.uid, home.version) | {"annotations": {TOKEN: token_text(token)}}
            try:
                found = await self._api.patch(path, {"metadata": metadata})
            except NotFound:
                return None
            except Conflict:
                await self._fences.verify(workspace_id, token)
                current = await self._observer.find_home(workspace_id)
                if current is None:
                    return None
                home = current
            else:
                return replace(read_home(found), token=token)
        raise EffectError(
            FailureCode.K8S_API_ERROR, "The home's claim was changed again and again.", endpoint="kubernetes"
        )


async def _both(looking: Awaitable[Resources], beside: Awaitable[None]) -> Resources:
    """What was seen, once both have ended. Raises what went wrong with looking first."""
    seen, done = await asyncio.gather(looking, beside, return_exceptions=True)
    for failure in (seen, done):
        if isinstance(failure, BaseException):
            raise failure
    assert isinstance(seen, Resources)
    return seen
