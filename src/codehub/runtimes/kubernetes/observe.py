"""Observe the cluster: check its mark, read pods and claims.

All workspaces take two listings, however many there are; a few are read by name, because the API server answers a
listing only once its cache has caught up, which takes 50 ms. Both show the newest state. No pod is reported without the
claim it was made after: both are read side by side, and if a pod was started in between, claims are read again.

Who else uses a home is listed from that cache as it is, and may be behind by a moment.
"""

import asyncio
from collections.abc import Collection, Mapping
from uuid import UUID

from codehub.runtimes.kubernetes.client import ApiClient, NotFound, namespaced
from codehub.runtimes.kubernetes.inventory import Home, Resources, find_strangers, read_home, sort_resources
from codehub.runtimes.kubernetes.marker import Marker
from codehub.runtimes.kubernetes.names import WORKSPACE, Document, Names, ObjectRole

_FEW = 4
_MOST_IDS = 40
"""More than these would make the request's address too long: then all are listed."""
_CLAIMS = "persistentvolumeclaims"


class ClusterObserver:
    """Observes workspaces. Raises ``K8S_API_ERROR``; never a partial result."""

    def __init__(self, api: ApiClient, names: Names, marker: Marker, *, namespace: str) -> None:
        self._api = api
        self._names = names
        self._marker = marker
        self._namespace = namespace

    async def observe_all(self) -> dict[UUID, Resources]:
        return await self._list(self._names.ours)

    async def observe_some(self, ids: Collection[UUID]) -> dict[UUID, Resources]:
        if not ids:
            return {}
        if len(ids) > _MOST_IDS:
            everything = await self.observe_all()
            return {each: resources for each, resources in everything.items() if each in ids}
        if len(ids) > _FEW:
            return await self._list(f"{self._names.ours},{WORKSPACE} in ({','.join(map(str, sorted(ids)))})")
        pods, claims, _ = await asyncio.gather(
            self._read_pods(ids), self._read_claims(ids), self._marker.require()
        )
        found = sort_resources(self._names, pods=pods, claims=claims)
        if _lacks_a_home(found):
            found = sort_resources(self._names, pods=pods, claims=await self._read_claims(ids))
        return found

    async def observe_one(self, workspace_id: UUID, *, users: bool = False) -> Resources:
        """What exists of one workspace. ``users``: also which other pods use its home."""
        pods, users_seen, home = await asyncio.gather(
            self._read_pods([workspace_id]),
            self._users(workspace_id) if users else _nothing(),
            self.find_home(workspace_id),
        )
        resources = sort_resources(self._names, pods=pods, claims=()).get(workspace_id, Resources())
        resources.home = home
        resources.strangers = find_strangers(self._names, workspace_id, users_seen)
        return resources

    async def find_home(self, workspace_id: UUID) -> Home | None:
        """The home's claim, if there is one and it is ours."""
        found = await self._find(_CLAIMS, self._names.home(workspace_id))
        ours = found is not None and self._names.are_ours(found, workspace_id, ObjectRole.HOME)
        return read_home(found) if found is not None and ours else None

    async def _list(self, labels: str) -> dict[UUID, Resources]:
        pods, claims, _ = await asyncio.gather(
            self._api.list(namespaced(self._namespace, "pods"), labels=labels),
            self._list_claims(labels),
            self._marker.require(),
        )
        found = sort_resources(self._names, pods=pods, claims=claims)
        if _lacks_a_home(found):
            found = sort_resources(self._names, pods=pods, claims=await self._list_claims(labels))
        return found

    async def _list_claims(self, labels: str) -> list[Document]:
        return await self._api.list(namespaced(self._namespace, _CLAIMS), labels=labels)

    async def _users(self, workspace_id: UUID) -> list[Document]:
        """Pods that may use this home: those that are not ours, and those with its labels."""
        path = namespaced(self._namespace, "pods")
        labelled = f"{self._names.ours},{WORKSPACE}={workspace_id}"
        others, ours = await asyncio.gather(
            self._api.list(path, labels=self._names.not_ours, cached=True),
            self._api.list(path, labels=labelled, cached=True),
        )
        return [*others, *ours]

    async def _read_pods(self, ids: Collection[UUID]) -> list[Document]:
        names = self._names
        return await self._read("pods", [name for each in ids for name in (names.pod(each), names.job(each))])

    async def _read_claims(self, ids: Collection[UUID]) -> list[Document]:
        return await self._read(_CLAIMS, [self._names.home(each) for each in ids])

    async def _read(self, kind: str, names: list[str]) -> list[Document]:
        found = await asyncio.gather(*(self._find(kind, name) for name in names))
        return [each for each in found if each is not None]

    async def _find(self, kind: str, name: str) -> Document | None:
        try:
            return await self._api.get(namespaced(self._namespace, kind, name))
        except NotFound:
            return None


def _lacks_a_home(found: Mapping[UUID, Resources]) -> bool:
    """Whether a pod was seen without the claim it was made after: claims were read before both were there."""
    return any(each.home is None and (each.pod or each.job) is not None for each in found.values())


async def _nothing() -> list[Document]:
    return []
