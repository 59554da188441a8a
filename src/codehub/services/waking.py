"""Wake a workspace because somebody opened its address.

The proxy calls this for a person it has authenticated. Waking is ``workspaces.start`` in that person's name and
with its own cause, so limits, ownership and errors are those of a start. At a limit nothing is changed: the page offers
to wait. Starts that come together share one transaction (``intent_batcher``). A process that dies in here has set the
desired state or has not; the waiting page asks again.
"""

from functools import partial
from uuid import UUID

from codehub.domain.causes import Cause, CauseCode
from codehub.domain.limits import LimitKind, RunningLimits
from codehub.domain.waking import RunningWorkspace, WakeOutcome, WakeResult, error_note
from codehub.services import workspaces
from codehub.services.errors import LimitReached, NotFound, WorkspaceDeleted
from codehub.services.identity import Identities
from codehub.services.intent_batcher import IntentBatcher
from codehub.store.db.session import Sessions


class WakeService:
    """Wakes workspaces for the proxy of one process."""

    def __init__(self, sessions: Sessions, *, identities: Identities, limits: RunningLimits) -> None:
        self._identities = identities
        self._limits = limits
        self._intent_batcher = IntentBatcher(sessions)

    async def wake(self, workspace_id: UUID, user_id: UUID) -> WakeOutcome:
        """Set the desired state RUNNING on behalf of this person.

        Idempotent. A person who was disabled meanwhile, and a workspace that is not theirs, get GONE.
        """
        known = await self._identities.of_user(user_id, fresh=True)
        if known is None:
            return WakeOutcome(WakeResult.GONE)
        try:
            record = await self._intent_batcher.submit(
                partial(
                    workspaces.start,
                    workspace_id=workspace_id,
                    actor=known.actor,
                    limits=self._limits,
                    cause=Cause(CauseCode.LINK_OPENED),
                ),
                row=workspace_id,
            )
        except LimitReached as limit:
            return _at_the_limit(limit)
        except (NotFound, WorkspaceDeleted):
            return WakeOutcome(WakeResult.GONE)
        if record.view.in_error:
            return WakeOutcome(WakeResult.ERROR, error=error_note(record.view))
        return WakeOutcome(WakeResult.QUEUED if record.view.is_queued else WakeResult.WAKING)


def _at_the_limit(limit: LimitReached) -> WakeOutcome:
    return WakeOutcome(
        WakeResult.LIMIT,
        running=[RunningWorkspace(each.view.id, each.name) for each in limit.running],
        allowed=limit.usage.allowed,
        is_global=limit.kind is LimitKind.GLOBAL,
    )
