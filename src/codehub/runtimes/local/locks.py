"""Lock a workspace with ``flock`` and admit tokens. Fenced.

A mutation holds ``flock`` on the workspace's lock file, and under it compares its token with the highest one
seen. That token and the reserved port outlive the process, so both are stored in the lock file itself: only the
holder of the lock changes them. The kernel releases the lock when its holder dies, at any instruction, so there
is nothing to clean up. Waiting polls without blocking: a thread blocked in ``flock`` could be neither cancelled
nor counted.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.base import FencingToken
from codehub.runtimes.local.layout import Layout, unreadable
from codehub.runtimes.local.threads import Threads

_LOWEST = FencingToken(op_seq=-1, epoch=-1)
_TOKEN, _PORT = b"%20d %20d\n", b"%5d\n"  # fixed length: a new value overwrites all of the old
_TOKEN_BYTES, _PORT_BYTES = len(_TOKEN % (0, 0)), len(_PORT % 0)


def open_lock(path: Path) -> int:
    """Open a new descriptor, so that locks of one process exclude each other."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Lock:
    """A workspace's lock, for one call.

    Made before the descriptor and filled in by the thread that opens it: a call that is cancelled in between
    still knows what to close.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fd: int | None = None

    def try_to_take(self) -> bool:
        if self.fd is None:
            self.fd = open_lock(self._path)
        return try_lock(self.fd)

    async def take(self, *, timeout: float) -> None:
        deadline = monotonic() + timeout
        pause = 0.001
        while not self.try_to_take():
            if monotonic() > deadline:
                raise EffectError(
                    FailureCode.LOCAL_RUNTIME_ERROR,
                    f"another process has been busy with this workspace for {timeout:g} s",
                    lock=self._path.name,
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)

    def release(self) -> None:
        """Release the lock by closing, never by LOCK_UN.

        A process that inherited the descriptor keeps the lock: so a starting IDE excludes others until it has
        written its record.
        """
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


@asynccontextmanager
async def acting(
    layout: Layout,
    threads: Threads,
    workspace_id: UUID,
    *,
    token: FencingToken | None,
    timeout: float,
    first: Callable[[int], None] = lambda _lock_fd: None,
) -> AsyncIterator[int]:
    """Hold a workspace's lock, admit ``token`` if given, and yield the descriptor.

    ``first`` runs right after the admission, in the same thread call.
    """
    path = layout.lock(workspace_id)
    lock = Lock(path)
    try:
        if not await threads.run(_enter, layout, lock, token, first):
            await lock.take(timeout=timeout)
            await threads.run(_enter, layout, lock, token, first)
        assert lock.fd is not None
        yield lock.fd
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        lock.release()


def _enter(layout: Layout, lock: Lock, token: FencingToken | None, first: Callable[[int], None]) -> bool:
    """Lock, admit and run ``first`` in one thread call. Blocking. False: the lock is taken."""
    layout.check()
    if not lock.try_to_take():
        return False
    assert lock.fd is not None
    if token is not None:
        admit(lock.fd, token)
    first(lock.fd)
    return True


def highest_token(lock: Path) -> FencingToken:
    """The highest token seen, or one below all others."""
    try:
        return _token_in(lock.read_bytes())
    except FileNotFoundError:
        return _LOWEST
    except OSError as error:
        raise unreadable(lock, error) from error


def admit(lock_fd: int, token: FencingToken) -> None:
    """Store a token that is not outranked; refuse a lower one. Fenced.

    The caller holds the lock. A crash right after this is harmless: the effect has not begun, and the same token is
    admitted again.
    """
    highest = _token_in(os.pread(lock_fd, _TOKEN_BYTES, 0))
    if token < highest:
        raise stale(token, highest)
    if token > highest:
        os.pwrite(lock_fd, _TOKEN % (token.op_seq, token.epoch), 0)


def kept_port(lock_fd: int) -> int | None:
    try:
        return int(os.pread(lock_fd, _PORT_BYTES, _TOKEN_BYTES)) or None
    except ValueError:
        return None


def keep_port(lock_fd: int, port: int | None) -> None:
    """Store the reserved port; None clears it. The caller holds the lock."""
    os.pwrite(lock_fd, _PORT % (port or 0), _TOKEN_BYTES)


def _token_in(content: bytes) -> FencingToken:
    """Parse the token. It is not synced: a power cut may leave none, but also ends every earlier actor."""
    try:
        op_seq, epoch = content[:_TOKEN_BYTES].split()
        return FencingToken(int(op_seq), int(epoch))
    except ValueError:
        return _LOWEST


def stale(token: FencingToken, highest: FencingToken) -> EffectError:
    return EffectError(
        FailureCode.STALE_TOKEN,
        "a newer actor has taken this workspace over",
        token=[token.op_seq, token.epoch],
        highest=[highest.op_seq, highest.epoch],
    )
