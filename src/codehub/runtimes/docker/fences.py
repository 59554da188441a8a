"""The highest token seen of each workspace, kept where every CodeHub on this engine finds it.

Docker has no conditional call, and labels cannot be changed once a thing exists. What can be done in one step
is to make a volume of a given name. So a token is a volume, empty, with the token in its name and labels: a
*fence*. Admission writes first and reads second:

    1. look; a higher token is there → refused
    2. make the fence of our token
    3. look again; a higher token is there → refused
    4. act, and remove lower fences meanwhile

A home carries the token it was made with, which counts like a fence as long as the home is there. So making
a home takes one look and one call, and the next admission writes a fence that outlives it.

Two actors that do this at once cannot both miss each other: of two writes one comes first, and the other's
reading comes after it. Dying between the steps leaves one fence too many, which the next admission removes.

What remains is the time between the last look and the call it precedes: a process frozen exactly there
acts with a token that has been outranked meanwhile. ``verify`` is therefore repeated right before every call
that cannot be undone, and such calls name a container by its id, never by its name.

Fences of workspaces that have nothing else left are removed a few minutes later. An action asks whether its
leader still leads right before it begins, and a call of it is given up after a minute: nothing that was
outranked five minutes ago is still on its way. One that is all the same (a process frozen in between) finds
no fence and makes an empty volume, which nobody trusts and the operator is shown.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import Token
from codehub.runtimes.docker.engine import Conflict, DockerEngine, NotFound, Refused
from codehub.runtimes.docker.inventory import Fence, Things
from codehub.runtimes.docker.names import Names, Role
from codehub.runtimes.docker.observe import Looking

KEPT = timedelta(minutes=5)
SWEEP_EVERY = timedelta(minutes=2)


class Fences:
    def __init__(self, engine: DockerEngine, names: Names, looking: Looking) -> None:
        self._engine = engine
        self._names = names
        self._looking = looking

    async def admit(self, workspace_id: UUID, token: Token) -> Things:
        """What exists, once nobody outranks ``token``. Raises ``STALE_TOKEN``."""
        things = await self.verify(workspace_id, token)
        if is_recorded(token, things):
            return things
        await self.record(workspace_id, token)
        return await self.verify(workspace_id, token)

    async def record(self, workspace_id: UUID, token: Token) -> None:
        """Make the fence. Whoever calls this alone has to ``verify`` between it and what cannot be undone."""
        try:
            # Never a volume driver of the operator's: a fence needs no space, and must not need a network.
            await self._engine.create_volume(
                self._names.fence(workspace_id, token),
                labels=self._names.labels(workspace_id, Role.FENCE, token),
                driver="local",
            )
        except (Refused, Conflict, NotFound) as error:
            raise EffectError(
                FailureCode.VOLUME_CREATE_FAILED, f"The token could not be recorded: {error}"
            ) from error

    async def remove_lower(self, token: Token, things: Things) -> None:
        """Fences that ours has outranked. Not admission's business: it may go on beside the action."""
        with suppress(EffectError):  # the next admission does it
            await self._remove(fence for fence in things.fences if fence.token < token)

    async def verify(self, workspace_id: UUID, token: Token) -> Things:
        """What exists. Raises ``STALE_TOKEN`` if somebody newer was here."""
        things = await self._looking.at(workspace_id)
        require_not_above(token, things.highest_token)
        return things

    async def sweep(self) -> None:
        """Remove fences that protect nothing any more."""
        now = await self._engine.time()
        for things in (await self._looking.at_everything()).values():
            if things.container is None and things.job is None and not things.home:
                await self._remove(fence for fence in things.fences if _is_old(fence, now=now))

    async def _remove(self, fences: Iterable[Fence]) -> None:
        for fence in fences:
            with suppress(NotFound, Conflict, Refused):  # one too many does no harm
                await self._engine.remove_volume(fence.name)


def is_recorded(token: Token, things: Things) -> bool:
    return any(fence.token == token for fence in things.fences)


def require_not_above(token: Token, highest: Token) -> None:
    """Raises ``STALE_TOKEN`` if somebody newer than ``token`` was here."""
    if token < highest:
        raise EffectError(
            FailureCode.STALE_TOKEN,
            "a newer action has taken over this workspace",
            token=[token.op_seq, token.epoch],
            highest=[highest.op_seq, highest.epoch],
        )


def _is_old(fence: Fence, *, now: datetime) -> bool:
    try:
        return now - datetime.fromisoformat(fence.created_at) > KEPT
    except (ValueError, TypeError):
        return False
