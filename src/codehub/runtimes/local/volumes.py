"""Create and delete home directories. A crash never leaves half a home.

Deleting is one rename into the trash: before it the home is whole, after it there is none. The tree is removed
later, from the trash (``trash``), in as many tries as it takes.
"""

import os
import stat
import uuid
from pathlib import Path
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.local import listen_addresses, logs
from codehub.runtimes.local.layout import Layout, unreadable


def make_volume(layout: Layout, workspace_id: UUID) -> None:
    path = layout.volume(workspace_id)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not has_volume(layout, workspace_id):
            raise EffectError(
                FailureCode.VOLUME_CREATE_FAILED, f"{path} exists and is not a directory", path=str(path)
            ) from None
        return
    except OSError as error:
        raise EffectError(
            FailureCode.VOLUME_CREATE_FAILED, f"cannot create {path}: {error.strerror}", path=str(path)
        ) from error
    sync_directory(layout.volumes)


def has_volume(layout: Layout, workspace_id: UUID) -> bool:
    """Whether a home exists: a real directory, not a link."""
    path = layout.volume(workspace_id)
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(path, error) from error


def discard_volume(layout: Layout, workspace_id: UUID) -> None:
    """Move the volume, and any restore in progress, to the trash."""
    try:
        for path in (layout.volume(workspace_id), layout.staging_of(workspace_id)):
            if os.path.lexists(path):
                os.rename(path, layout.trash / f"{workspace_id}.{uuid.uuid4().hex}")
        sync_directory(layout.volumes)
    except OSError as error:
        raise unreadable(layout.volume(workspace_id), error) from error


def forget_traces(layout: Layout, workspace_id: UUID, *, lock_fd: int) -> None:
    """Remove port, socket and logs of a workspace without a volume. Its token stays."""
    listen_addresses.release_address(layout, workspace_id, lock_fd=lock_fd)
    logs.forget(layout.output(workspace_id))
    logs.forget(layout.job_output(workspace_id))


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
