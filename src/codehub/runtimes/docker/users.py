"""Nobody but CodeHub works on a home while CodeHub does.

A second container on a home writes beside the first, and what it writes after an archive began is in no
archive. So starting, archiving, restoring and deleting ask who mounts the volume (``Things.strangers``). A
stranger is a Mismatch that a person sees and settles: trying again would change nothing, and ending what
somebody else started is not ours to do.

What this cannot see: a host directory mounted from inside Docker's own data, and a container that came and
went between two looks.
"""

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.docker.inventory import Things


def require_no_stranger(home: str, things: Things, *, even_stopped: bool = False) -> None:
    """``even_stopped``: before deleting; a stopped container holds its volume, and could be started again."""
    names = [each.name for each in things.strangers if each.is_running or even_stopped]
    if names:
        raise EffectError(
            FailureCode.VOLUME_USED_ELSEWHERE,
            f"The volume {home} is also mounted by {', '.join(names)}, which is not the container CodeHub "
            "made for this workspace, or was renamed since. Nothing was changed. Rename it back, or stop "
            "and remove it.",
            expected="no other container on the volume",
            actual=names,
            volume=home,
        )
