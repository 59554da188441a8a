"""Record the highest token of each workspace on the Docker engine. Fenced.

Docker has no conditional call, and labels cannot be changed after creation. Creating a volume of a given name is
atomic. So a token is an empty volume with the token in its name and labels: a *fence*. Every CodeHub on this
engine finds it. Admission writes first and reads second:

    1. list; a higher token exists → refused
    2. create the fence of our token
    3. list again; a higher token exists → refused
    4. act, and remove lower fences meanwhile

A home carries the token it was created with, which counts like a fence as long as the home exists. So creating a
home takes one listing and one call, and the next admission writes a fence that outlives it.

Two actors that do this at once cannot both miss each other: of two writes one comes first, and the other's
second listing comes after it. A crash between the steps leaves one fence too many, which the next admission
removes.

What remains is the time between the last listing and the call it precedes: a process frozen exactly there acts
with a token that has been outranked meanwhile. ``verify`` is therefore repeated right before every call that
cannot be undone, and such calls name a container by its id, never by its name.

Fences of workspaces that have nothing else left are removed five minutes later. An action checks that its leader
still leads right before it begins, and each of its calls has a timeout of a minute: no call that was outranked
five minutes ago is still in progress. One that is all the same (a process frozen in between) finds no fence and
creates an empty volume, which is not trusted and is reported to the operator.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import FencingToken
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, NotFound
from codehub.runtimes.docker.inventory import FenceVolume, Resources
from codehub.runtimes.docker.names import Names, ObjectRole
from codehub.runtimes.docker.observe import EngineObserver

KEPT = timedelta(minutes=5)
SWEEP_EVERY = timedelta(minutes=2)


class Fences:
    """Admits tokens and keeps their fences."""

    def __init__(self, engine: DockerEngine, names: Names, observer: EngineObserver) -> None:
        self._engine = engine
        self._names = names
        self._observer = observer

    async def admit(self, workspace_id: UUID, token: FencingToken) -> Resources:
        """Record ``token`` unless it is outranked; what exists. Raises ``STALE_TOKEN``."""
        resources = await self.verify(workspace_id, token)
        if is_recorded(token, resources):
            return resources
        await self.record(workspace_id, token)
        return await self.verify(workspace_id, token)

    async def record(self, workspace_id: UUID, token: FencingToken) -> None:
        """Create the fence of a token.

        A caller of this alone must ``verify`` between it and a call that cannot be undone.
        """
        try:
            # Never the operator's volume driver: a fence needs no space, and must not need a network.
            await self._engine.create_volume(
                self._names.fence(workspace_id, token),
                labels=self._names.labels(workspace_id, ObjectRole.FENCE, token),
                driver="local",
            )
        except (CallRefused, Conflict, NotFound) as error:
            raise EffectError(
                FailureCode.VOLUME_CREATE_FAILED, f"The token could not be recorded: {error}"
            ) from error

    async def remove_lower(self, token: FencingToken, resources: Resources) -> None:
        """Remove the fences that ours outranks. May run beside the action."""
        with suppress(EffectError):  # the next admission removes them
            await self._remove(fence for fence in resources.fences if fence.token < token)

    async def verify(self, workspace_id: UUID, token: FencingToken) -> Resources:
        """List what exists. Raises ``STALE_TOKEN`` if a higher token does."""
        resources = await self._observer.observe_one(workspace_id)
        require_not_above(token, resources.highest_token)
        return resources

    async def sweep(self) -> None:
        """Remove old fences of workspaces that have nothing else."""
        now = await self._engine.time()
        for resources in (await self._observer.observe_all()).values():
            if resources.container is None and resources.job is None and not resources.home:
                await self._remove(fence for fence in resources.fences if _is_old(fence, now=now))

    async def _remove(self, fences: Iterable[FenceVolume]) -> None:
        for fence in fences:
            with suppress(NotFound, Conflict, CallRefused):  # a fence too many is harmless
                await self._engine.remove_volume(fence.name)


def is_recorded(token: FencingToken, resources: Resources) -> bool:
    return any(fence.token == token for fence in resources.fences)


def require_not_above(token: FencingToken, highest: FencingToken) -> None:
    """Raise ``STALE_TOKEN`` if ``highest`` outranks ``token``."""
    if token < highest:
        raise EffectError(
            FailureCode.STALE_TOKEN,
            "a newer action has taken over this workspace",
            token=[token.op_seq, token.epoch],
            highest=[highest.op_seq, highest.epoch],
        )


def _is_old(fence: FenceVolume, *, now: datetime) -> bool:
    try:
        return now - datetime.fromisoformat(fence.created_at) > KEPT
    except (ValueError, TypeError):
        return False
