"""What must hold in every state that can be reached."""

from codehub.domain.completion import TARGET
from codehub.domain.observation import observe
from codehub.domain.states import ContainerState, ObservedStatus, Operation
from tests.model.state import Resources, State, content_of

LEFT_UNARCHIVED = "a person returned to an archive, and the home they left is in none"
TWO_ACTORS = "somebody who was replaced changed something"


def violation(state: State) -> str | None:
    """The invariant this state breaks, in words."""
    return _lost_content(state) or _wrong_content(state) or _disturbed_job(state) or state.problem


def _lost_content(state: State) -> str | None:
    """What the person last left in the home is somewhere, and the row knows where."""
    row, resources = state.row, state.resources
    if row.deleted or state.newest == 0:
        return None
    at_hand = resources.volume == state.newest or resources.unmounted == state.newest
    if not at_hand and content_of(resources, row.archive_key) != state.newest:
        kept = any(
            key.split("/")[0] == str(row.op_seq) and content == state.newest
            for key, content in resources.archives
        )
        return "a volume went before its archive was committed" if kept else "content is lost"
    return None


def _wrong_content(state: State) -> str | None:
    """A person only ever meets the home as it was left: whole, and the newest."""
    resources = state.resources
    if resources.container is not ContainerState.RUNNING:
        return None
    if state.row.deleted or resources.volume in (None, state.newest):
        return None
    return "a container runs on a home that is not the newest"


def _disturbed_job(state: State) -> str | None:
    if state.resources.container is ContainerState.RUNNING and state.resources.job is not None:
        return "a container runs during a storage job"
    return None


def broken_by_effect(before: State, after: Resources, token: tuple[int, int]) -> str | None:
    """Nothing is changed by somebody who was replaced; an empty home is made only where none was left."""
    if token < before.resources.token and after._replace(token=before.resources.token) != before.resources:
        return TWO_ACTORS
    if before.row.deleted or before.resources.volume is not None or after.volume != 0:
        return None
    if before.resources.archives:
        return "an empty home was made beside an archive"
    return "an empty home was made in place of one that vanished" if before.newest else None


def target_is_shown(state: State) -> bool:
    """Whether the resources, right now, are what the operation in flight is for."""
    row, resources = state.row, state.resources
    if row.operation is Operation.NONE:
        return False
    seen = observe(
        container=resources.container,
        volume=resources.volume is not None,
        deleted=row.deleted,
        terminal_error=False,
    ).observed_status
    target = ObservedStatus.STANDBY if row.keeps else TARGET[row.operation]
    return seen in (target, ObservedStatus.DELETED)
