"""Read and rotate the output of a workspace. Bounded on disk.

The process appends to ``{id}.log`` as long as it lives, so the file cannot be renamed. When it is too long it is
copied to ``{id}.log.old`` and truncated; appending continues at the beginning. What is written between copy and
truncation is lost, which is acceptable for logs.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from codehub.runtimes.local.threads import Threads

MAX_BYTES = 4 * 1024 * 1024
TAIL_BYTES = 64 * 1024
_FOLLOW_SECONDS = 0.25


async def pieces(
    threads: Threads, log: Path, find_running: Callable[[], object | None] | None
) -> AsyncIterator[bytes]:
    """Recent output; with ``find_running`` later output too, until it is over and all was read."""
    data, position = await threads.run(read_tail, log)
    if data:
        yield data
    while find_running is not None:
        running = await threads.run(find_running)
        data, position = await threads.run(read_from, log, position)
        if data:
            yield data
        elif running is None:
            return
        else:
            await asyncio.sleep(_FOLLOW_SECONDS)


def rotate(log: Path, *, max_bytes: int = MAX_BYTES) -> None:
    """Copy and truncate a long log. Two processes at once lose lines, nothing else."""
    try:
        if os.stat(log).st_size <= max_bytes:
            return
        shutil.copyfile(log, _old(log))
        os.truncate(log, 0)
    except OSError:
        return  # a full disk must not stop an observation


def read_tail(log: Path, *, max_bytes: int = TAIL_BYTES) -> tuple[bytes, int]:
    """Read the last bytes, from a whole line on, and the position after them."""
    current, size = _last_bytes(log, max_bytes)
    missing = max_bytes - len(current)
    data = (_last_bytes(_old(log), missing)[0] if missing > 0 else b"") + current
    if len(data) == max_bytes and b"\n" in data:
        data = data[data.index(b"\n") + 1 :]
    return data, size


def read_from(log: Path, position: int) -> tuple[bytes, int]:
    """Read from ``position``, and the new position. A truncated file is read from 0."""
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
    """The last lines written after ``since``, for an error's context."""
    try:
        with open(log, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(since, size - 8192))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line[:500] for line in lines[-count:]]


def forget(log: Path) -> None:
    """Remove the logs of a workspace whose home is deleted."""
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
