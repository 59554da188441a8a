"""Record the highest token of each workspace in the cluster. Fenced.

A fence is a ConfigMap with the token in an annotation, changed by compare-and-swap on its resource version. Whoever
has raised it may act; everybody else finds it raised:

    1. raise the token in the fence; a higher one is there → refused
    2. list what exists, by a read that is never behind (``observe``)
    3. stamp the token on the home, which changes its resource version
    4. create the pod with a scheduling gate: no node takes it
    5. read the fence again; a higher one is there → delete the pod, refused
    6. remove the gate, by a patch that names the pod's uid and resource version

4 may go side by side with 2, and 5 with 3: a gated pod uses nothing, and what counts is that 5 comes after 4, and 6
after all others.

Of two leaders that do this at once, the older one reads the fence (5) after its pod exists (4). Either the newer one
has raised the fence by then, and the older one is refused; or it lists (2) after the pod was created and deletes it,
and 6 finds no pod. There is no moment at which a frozen leader can still start something.

Deletions name uid and resource version of an object read in 2. A newer leader that keeps the object, or made it, has
put its token on it: found in 2, that refuses the older one; put there later, the version is another one, the deletion
is refused, and the older leader reads the fence and learns why.

A crash between the steps leaves a raised fence, which the same token may pass again, or a gated pod, which the next
action of that workspace deletes.

Fences of workspaces that have nothing else left are removed after an hour. ``verify`` takes a missing fence for a
higher token: its own was there before.
"""

from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import FencingToken
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, NotFound, namespaced
from codehub.runtimes.kubernetes.manifests import config_map
from codehub.runtimes.kubernetes.names import (
    TOKEN,
    WRITTEN_AT,
    Document,
    Names,
    ObjectRole,
    annotations_of,
    find_token,
    find_workspace,
    token_text,
)

KEPT = timedelta(hours=1)
SWEEP_EVERY = timedelta(minutes=10)
_TRIES = 10
_MOST_KEPT = 10_000


class Fences:
    """Admits tokens and keeps their fences."""

    def __init__(self, api: ApiClient, names: Names, *, namespace: str) -> None:
        self._api = api
        self._names = names
        self._namespace = namespace
        self._written: OrderedDict[UUID, Document] = OrderedDict()

    async def raise_to(self, workspace_id: UUID, token: FencingToken) -> None:
        """Record ``token`` unless it is outranked. Raises ``STALE_TOKEN``.

        What we wrote last is replaced without reading it first: if anybody wrote since, that is refused.
        """
        last = self._written.pop(workspace_id, None)
        if last is not None and (find_token(last) or token) < token and await self._replace(last, token):
            return
        for _ in range(_TRIES):
            try:
                found = await self._api.get(self._path(workspace_id))
            except NotFound:
                if await self._create(workspace_id, token):
                    return
                continue
            highest = find_token(found) or FencingToken(0, 0)
            require_not_above(token, highest)
            if highest == token or await self._replace(found, token):
                return
        raise EffectError(
            FailureCode.K8S_API_ERROR,
            "The token was changed again and again by others.",
            endpoint="kubernetes",
        )

    async def verify(self, workspace_id: UUID, token: FencingToken) -> None:
        """Raise ``STALE_TOKEN`` if a higher token was recorded since ours was."""
        try:
            found = await self._api.get(self._path(workspace_id))
        except NotFound:
            raise _stale(token) from None
        require_not_above(token, find_token(found) or FencingToken(0, 0))

    async def sweep(self, *, in_use: set[UUID]) -> None:
        """Remove old fences of workspaces that are not ``in_use``."""
        now = datetime.now(UTC)
        path = namespaced(self._namespace, "configmaps")
        for found in await self._api.list(
            path, labels=f"{self._names.ours},codehub.role={ObjectRole.FENCE.value}"
        ):
            if find_workspace(found) not in in_use and _is_old(found, now=now):
                await self._remove(found)

    async def _remove(self, fence: Document) -> None:
        metadata = fence["metadata"]
        path = namespaced(self._namespace, "configmaps", metadata["name"])
        try:
            await self._api.delete(path, uid=metadata["uid"], version=metadata["resourceVersion"])
        except (NotFound, Conflict, CallRefused):
            return  # used meanwhile, or the next sweep removes it

    async def _create(self, workspace_id: UUID, token: FencingToken) -> bool:
        wanted = self._names.labels(workspace_id, ObjectRole.FENCE)
        fence = config_map(self._names.fence(workspace_id), wanted, _annotations(token))
        try:
            self._remember(await self._api.create(namespaced(self._namespace, "configmaps"), fence))
        except Conflict:
            return False
        except CallRefused as error:
            raise _not_recorded(error) from error
        return True

    async def _replace(self, found: Document, token: FencingToken) -> bool:
        metadata = {**found["metadata"], "annotations": _annotations(token)}
        path = namespaced(self._namespace, "configmaps", metadata["name"])
        try:
            self._remember(await self._api.replace(path, {**found, "metadata": metadata}))
        except (Conflict, NotFound):
            return False
        except CallRefused as error:
            raise _not_recorded(error) from error
        return True

    def _remember(self, fence: Document) -> None:
        if (workspace_id := find_workspace(fence)) is not None:
            self._written[workspace_id] = fence
        while len(self._written) > _MOST_KEPT:
            self._written.popitem(last=False)

    def _path(self, workspace_id: UUID) -> str:
        return namespaced(self._namespace, "configmaps", self._names.fence(workspace_id))


def require_not_above(token: FencingToken, highest: FencingToken) -> None:
    """Raise ``STALE_TOKEN`` if ``highest`` outranks ``token``."""
    if token < highest:
        raise _stale(token, highest)


def _stale(token: FencingToken, highest: FencingToken | None = None) -> EffectError:
    known = {} if highest is None else {"highest": [highest.op_seq, highest.epoch]}
    return EffectError(
        FailureCode.STALE_TOKEN,
        "a newer action has taken over this workspace",
        token=[token.op_seq, token.epoch],
        **known,
    )


def _not_recorded(error: CallRefused) -> EffectError:
    return EffectError(FailureCode.ADMISSION_REFUSED, f"The token could not be recorded: {error}")


def _annotations(token: FencingToken) -> dict[str, str]:
    return {TOKEN: token_text(token), WRITTEN_AT: datetime.now(UTC).isoformat(timespec="seconds")}


def _is_old(fence: Document, *, now: datetime) -> bool:
    try:
        return now - datetime.fromisoformat(annotations_of(fence)[WRITTEN_AT]) > KEPT
    except (KeyError, ValueError, TypeError):
        return False
