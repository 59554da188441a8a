"""Remove folder trees that people filled: any depth, any names, links, no rights.

Used where a home is removed (a restore's swap, the local runtime's trash). The rules:

- No link is ever followed: everything is done by name inside an opened folder, and folders are opened with
  ``O_NOFOLLOW``. Testing a *path* for a folder follows links, and fails on one whose target is too long, a
  loop or in a folder without search permission.
- No recursion and a constant number of descriptors: a folder inside a folder is first moved to the top, so
  nothing is ever deeper than two levels, nor a path longer than PATH_MAX.

A process that dies anywhere leaves a smaller tree below the same name; the next call continues. Several
processes may work on the same tree at once.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

_ROUNDS = 5
"""How often to empty a folder again when something appears in it, such as the last file of a tar being killed."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove ``path``: a file, a link (not its target) or a folder with its contents.

    Idempotent: a missing path is fine. Raises OSError for what cannot be removed.
    """
    with _opened(path.parent) as parent:
        if not _removed_as_file(path.name, parent):
            _remove_folder(path.name, parent)


@contextmanager
def usable_folder(path: Path) -> Iterator[int]:
    """Open the folder ``path`` with full rights for its owner; restore its mode after.

    A person may have removed these rights from their own folder; also to *move* a folder it must be writable.
    """
    with _opened(path.parent) as parent:
        mode = stat.S_IMODE(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode)
        folder = _open_folder(path.name, parent)
    try:
        try:
            yield folder
        finally:
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                os.fchmod(folder, mode)
    finally:
        os.close(folder)


def _remove_folder(name: str, parent: int) -> None:
    for _ in range(_ROUNDS):
        try:
            top = _open_folder(name, parent)
        except FileNotFoundError:
            return
        try:
            folders = _empty(top, into=None)
            while folders:
                folders += _empty_below(folders.pop(), top)
        finally:
            os.close(top)
        if _removed_as_folder(name, parent):
            return
    raise OSError(errno.ENOTEMPTY, "could not be removed", name)


def _empty_below(name: str, top: int) -> list[str]:
    """Remove one folder of ``top``; its subfolders move into ``top``.

    Returns their new names.
    """
    try:
        folder = _open_folder(name, top)
    except FileNotFoundError:
        return []
    try:
        moved = _empty(folder, into=top)
    finally:
        os.close(folder)
    _removed_as_folder(name, top)  # if not empty: something appeared in it, and the next round removes it
    return moved


def _empty(folder: int, *, into: int | None) -> list[str]:
    """Remove the files of ``folder`` and return the names of its subfolders.

    With ``into``, the subfolders are moved there first, under new names.
    """
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    left = [name for name in names if not _removed_as_file(name, folder)]
    left = [name for name in left if not _removed_as_folder(name, folder)]
    return left if into is None else [new for name in left if (new := _moved(name, folder, into)) is not None]


def _removed_as_file(name: str, folder: int) -> bool:
    """Unlink ``name``. False: it is a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except (IsADirectoryError, PermissionError):
        if _is_folder(name, folder):
            return False
        raise
    return True


def _removed_as_folder(name: str, parent: int) -> bool:
    """Remove the empty folder ``name``. False: it is not empty."""
    try:
        os.rmdir(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _moved(name: str, folder: int, into: int) -> str | None:
    """Move a folder and return its new name.

    None: another process has moved or removed it.
    """
    new = uuid4().hex
    try:
        try:
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=into)
        except PermissionError:  # moving a folder rewrites its "..", for which it must be writable
            os.close(_open_folder(name, folder))
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=into)
    except FileNotFoundError:
        return None
    return new


def _open_folder(name: str, parent: int) -> int:
    """Open a folder and grant its owner all rights."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        _grant_owner(name, parent)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(PermissionError):  # another owner's: the operations that need the right fail
            os.fchmod(folder, mode | stat.S_IRWXU)
    return folder


def _grant_owner(name: str, parent: int) -> None:
    if sys.platform.startswith("linux"):
        # Linux has no chmod that does not follow links; a descriptor opened with O_DIRECTORY cannot be a link.
        opened = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{opened}", stat.S_IRWXU)
        finally:
            os.close(opened)
    else:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent, follow_symlinks=False)


def _is_folder(name: str, parent: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
