"""The output of a workspace: bounded on disk, readable by people, followed without a busy loop.

The process appends to ``{id}.log`` for as long as it lives, so the file cannot be renamed away from
under it. When it has grown too long it is copied to ``{id}.log.old`` and cut to nothing; appending
goes on at the beginning. What is written between copy and cut is lost, which logs can bear.
"""

import os
import shutil
from pathlib import Path

MAX_BYTES = 4 * 1024 * 1024
TAIL_BYTES = 64 * 1024


def rotate(log: Path, *, max_bytes: int = MAX_BYTES) -> None:
    """Keep the file short. Two observers doing this at once lose lines, nothing else."""
    try:
        if os.stat(log).st_size <= max_bytes:
            return
        shutil.copyfile(log, _old(log))
        os.truncate(log, 0)
    except OSError:
        return  # a full disk must not stop an observation


def read_tail(log: Path, *, max_bytes: int = TAIL_BYTES) -> tuple[bytes, int]:
    """The last bytes, beginning with a whole line, and the position in ``log`` that follows them."""
    current, size = _last_bytes(log, max_bytes)
    missing = max_bytes - len(current)
    data = (_last_bytes(_old(log), missing)[0] if missing > 0 else b"") + current
    if len(data) == max_bytes and b"\n" in data:
        data = data[data.index(b"\n") + 1 :]
    return data, size


def read_from(log: Path, position: int) -> tuple[bytes, int]:
    """What came after ``position``, and the new position. A file that was cut is read from its start."""
    try:
        with open(log, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < position:
                position = 0
            file.seek(position)
            data = file.read(TAIL_BYTES)
            return data, position + len(data)
    except FileNotFoundError:
        return b"", 0


def last_lines(log: Path, *, since: int = 0, count: int = 20) -> list[str]:
    """For an error's context: the end of what was written after ``since``."""
    try:
        with open(log, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(since, size - 8192))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line[:500] for line in lines[-count:]]


def forget(log: Path) -> None:
    """The workspace has no home any more: what it once said goes too."""
    for path in (log, _old(log)):
        path.unlink(missing_ok=True)


def size_of(log: Path) -> int:
    try:
        return os.stat(log).st_size
    except FileNotFoundError:
        return 0


def _old(log: Path) -> Path:
    return log.with_name(log.name + ".old")


def _last_bytes(log: Path, count: int) -> tuple[bytes, int]:
    try:
        with open(log, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - count))
            data = file.read(count)
            return data, file.tell()
    except FileNotFoundError:
        return b"", 0
