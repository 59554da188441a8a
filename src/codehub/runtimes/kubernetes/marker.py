"""Check that this namespace holds our homes, by a marker ConfigMap.

Another cluster because of a wrong context, or another namespace, looks exactly like "every home is gone". So an
installation marks its namespace. Where the mark is missing nothing is reported and nothing is created: the cluster
counts as away.
"""

import asyncio

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, NotFound, namespaced
from codehub.runtimes.kubernetes.manifests import config_map
from codehub.runtimes.kubernetes.names import INSTALLATION, ROLE, Names, ObjectRole


class Marker:
    def __init__(self, api: ApiClient, names: Names, *, namespace: str) -> None:
        self._api = api
        self._names = names
        self._namespace = namespace
        self._may_create = True
        self._creating = asyncio.Lock()

    def forbid_creation(self) -> None:
        """Never mark a namespace: homes exist, so an unmarked one is the wrong one."""
        self._may_create = False

    async def require(self) -> None:
        """Raise ``K8S_API_ERROR`` in a namespace that is not ours; mark it on first use."""
        if not await self._is_there():
            async with self._creating:
                if not await self._is_there():
                    await self._create()
        self._may_create = False  # it existed once: from now on its absence is an error

    async def _is_there(self) -> bool:
        try:
            await self._api.get(namespaced(self._namespace, "configmaps", self._names.marker))
        except NotFound:
            return False
        return True

    async def _create(self) -> None:
        name = self._names.marker
        if not self._may_create:
            raise _away(
                f"The namespace {self._namespace} has no ConfigMap {name}, so it is not the one that holds the "
                "homes of this installation: the kubeconfig or CODEHUB_KUBERNETES_NAMESPACE names another."
            )
        mark = config_map(
            name, {INSTALLATION: self._names.installation_id, ROLE: ObjectRole.MARKER.value}, {}
        )
        try:
            await self._api.create(namespaced(self._namespace, "configmaps"), mark)
        except Conflict:
            return  # by another replica
        except (CallRefused, NotFound) as error:
            raise _away(f"The namespace {self._namespace} cannot be marked: {error}") from error


def _away(why: str) -> EffectError:
    return EffectError(FailureCode.K8S_API_ERROR, why, endpoint="kubernetes")
