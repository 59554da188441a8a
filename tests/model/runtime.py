"""The effects of a leader's steps on the world: what the runtime and the archive store do.

Each effect gives the new world, or the code of the failure it would raise. Every mutation carries the
token (op_seq, epoch) of its claim.
"""

from codehub.domain.states import ContainerState
from tests.model.rules import Rules
from tests.model.state import HALF, Job, Leader, Row, State, World

Outcome = World | str

NOTHING, RUNNING = ContainerState.NONE, ContainerState.RUNNING


def apply(state: State, leader: Leader, step: str, rules: Rules) -> Outcome:
    """The world after one effect of ``leader``, or the failure code."""
    seen, world = leader.seen, state.world
    assert seen is not None
    if step == "look for archives":
        return "ARCHIVE_UNEXPECTED" if rules.archive_lookup and world.archives else world
    token = (seen.op_seq, leader.epoch)
    if rules.tokens and token < world.token:
        return "STALE_TOKEN"
    world = world._replace(token=max(world.token, token))
    match step:
        case "provision":
            return world._replace(volume=0) if world.volume is None else world
        case "start":
            if world.volume is None:
                return "VOLUME_MISSING"
            return world._replace(container=RUNNING)
        case "stop":
            return world._replace(container=NOTHING)
        case "delete volume":
            if world.container is not NOTHING:
                return "VOLUME_IN_USE"
            return world._replace(volume=None)
        case "end job":
            return _end_job(world)
        case "begin job":
            return _begin_job(world, seen, token)
        case _:
            raise AssertionError(step)


def _begin_job(world: World, seen: Row, token: tuple[int, int]) -> Outcome:
    world = _end_job(world)
    archives = seen.operation.value == "ARCHIVING"
    if archives and world.volume is None:
        return "VOLUME_MISSING"
    key = None if archives else seen.archive_key
    return world._replace(job=Job(archives, *token, archive_key=key), restored_by=None)


def _end_job(world: World) -> World:
    """Whoever's token was let through ends the job there is, an equal one too: it was left by that actor."""
    return world._replace(job=None)


def advance_job(world: World) -> World:
    """One step of the storage job, in its own process."""
    job = world.job
    assert job is not None
    if job.archives:
        return _archive(world, job)
    if job.content is None:  # the volume exists from here on, and is not the home yet
        volume = HALF if world.volume is None else world.volume
        return world._replace(volume=volume, job=job._replace(content=HALF))
    content = dict(world.archives)[job.archive_key or ""]
    return world._replace(volume=content, job=None, restored_by=(job.op_seq, job.epoch))


def _archive(world: World, job: Job) -> World:
    if committed_attempt(world, job.op_seq) is not None:  # done already, by an earlier attempt
        return world._replace(job=None)
    if world.volume is None:  # it disappeared under the job: the job fails and leaves nothing
        return world._replace(job=None)
    if job.content is None:
        return world._replace(job=job._replace(content=world.volume))
    key = f"{job.op_seq}/{job.epoch}"
    return world._replace(job=None, archives=(*world.archives, (key, job.content)))


def committed_attempt(world: World, op_seq: int) -> str | None:
    return next((key for key, _ in world.archives if key.split("/")[0] == str(op_seq)), None)


def half_done(before: World, after: World, step: str) -> World:
    """A call that failed after it had changed something: deleting may stop half-way, the rest is done."""
    if step == "delete volume" and before.volume is not None:
        return after._replace(volume=HALF)
    return after
