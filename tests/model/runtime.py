"""The effects of a leader's steps on the resources: what the runtime and the archive store do.

Each effect gives the new resources, or the code of the failure it would raise. Every mutation carries the
token (op_seq, epoch) of its claim.
"""

from codehub.domain.states import ContainerState
from tests.model.rules import Rules
from tests.model.state import HALF, Job, Leader, Resources, Row, State

Outcome = Resources | str

NOTHING, RUNNING = ContainerState.NONE, ContainerState.RUNNING


def apply(state: State, leader: Leader, step: str, rules: Rules) -> Outcome:
    """The resources after one effect of ``leader``, or the failure code."""
    seen, resources = leader.seen, state.resources
    assert seen is not None
    if step == "look for archives":
        return "ARCHIVE_UNEXPECTED" if rules.archive_lookup and resources.archives else resources
    token = (seen.op_seq, leader.epoch)
    if rules.tokens and token < resources.token:
        return "STALE_TOKEN"
    resources = resources._replace(token=max(resources.token, token))
    match step:
        case "provision":
            return resources._replace(volume=0) if resources.volume is None else resources
        case "start":
            if resources.volume is None:
                return "VOLUME_MISSING"
            return resources._replace(container=RUNNING)
        case "stop":
            return resources._replace(container=NOTHING)
        case "delete volume":
            if resources.container is not NOTHING:
                return "VOLUME_IN_USE"
            return resources._replace(volume=None)
        case "end job":
            return _end_job(resources)
        case "begin job":
            return _begin_job(resources, seen, token)
        case _:
            raise AssertionError(step)


def _begin_job(resources: Resources, seen: Row, token: tuple[int, int]) -> Outcome:
    resources = _end_job(resources)
    archives = seen.operation.value == "ARCHIVING"
    if archives and resources.volume is None:
        return "VOLUME_MISSING"
    key = None if archives else seen.archive_key
    return resources._replace(job=Job(archives, *token, archive_key=key), restored_by=None)


def _end_job(resources: Resources) -> Resources:
    """Whoever's token was let through ends the job there is, an equal one too: it was left by that actor."""
    return resources._replace(job=None)


def advance_job(resources: Resources) -> Resources:
    """One step of the storage job, in its own process."""
    job = resources.job
    assert job is not None
    if job.archives:
        return _archive(resources, job)
    if job.content is None:  # the volume exists from here on, and is not the home yet
        volume = HALF if resources.volume is None else resources.volume
        return resources._replace(volume=volume, job=job._replace(content=HALF))
    content = dict(resources.archives)[job.archive_key or ""]
    return resources._replace(volume=content, job=None, restored_by=(job.op_seq, job.epoch))


def _archive(resources: Resources, job: Job) -> Resources:
    if committed_attempt(resources, job.op_seq) is not None:  # done already, by an earlier attempt
        return resources._replace(job=None)
    if resources.volume is None:  # it disappeared under the job: the job fails and leaves nothing
        return resources._replace(job=None)
    if job.content is None:
        return resources._replace(job=job._replace(content=resources.volume))
    key = f"{job.op_seq}/{job.epoch}"
    return resources._replace(job=None, archives=(*resources.archives, (key, job.content)))


def committed_attempt(resources: Resources, op_seq: int) -> str | None:
    return next((key for key, _ in resources.archives if key.split("/")[0] == str(op_seq)), None)


def half_done(before: Resources, after: Resources, step: str) -> Resources:
    """A call that failed after it had changed something: deleting may stop half-way, the rest is done."""
    if step == "delete volume" and before.volume is not None:
        return after._replace(volume=HALF)
    return after
