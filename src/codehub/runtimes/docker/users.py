"""Refuse to use a home that a container CodeHub did not start has mounted.

A second container on a home writes beside the first, and what it writes after an archive began is in no archive.
So starting, archiving, restoring and deleting check which containers mount the volume (``Resources.strangers``). A
stranger is a Mismatch for a person: a retry would change nothing, and CodeHub does not end what it did not start.

Not found by this: a host directory mounted from inside Docker's own data, and a container that came and went
between two listings.
"""

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.docker.inventory import Resources


def require_no_stranger(home: str, resources: Resources, *, even_stopped: bool = False) -> None:
    """Raise ``VOLUME_USED_ELSEWHERE`` if a stranger mounts the home.

    ``even_stopped``: before deleting, because a stopped container holds its volume and could be started again.
    """
    names = [each.name for each in resources.strangers if each.is_running or even_stopped]
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
