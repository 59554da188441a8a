"""One actor per workspace at a time, and none that comes too late.

A mutation holds ``flock`` on the workspace's lock file, and under it compares its token with the
highest one seen. What must be remembered of a workspace for longer than it runs, that token and the port
it has, is written in that very file: whoever may change it holds it. The kernel gives the lock back when
its holder dies, at whatever instruction, so there is nothing to clean up. Waiting polls without blocking:
a thread asleep in ``flock`` could be neither cancelled nor counted.
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
from codehub.runtimes.base import Token
from codehub.runtimes.local.layout import Layout, unreadable
from codehub.runtimes.local.threads import Threads

_NOBODY = Token(op_seq=-1, epoch=-1)
_TOKEN, _PORT = b"%20d %20d\n", b"%5d\n"  # always as long: a new one covers all of the old
_TOKEN_BYTES, _PORT_BYTES = len(_TOKEN % (0, 0)), len(_PORT % 0)


def open_lock(path: Path) -> int:
    """A descriptor of its own each time: locks of one process exclude each other too."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Lock:
    """A workspace's lock as the call that wants it knows it.

    Made before the descriptor and filled in by the thread that opens it: a call that is cancelled in that
    moment still knows what to close.
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

    def leave(self) -> None:
        """By closing, never by LOCK_UN: a process that inherited the descriptor keeps holding the lock,
        which is how a starting IDE keeps everybody out until it has written itself down."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


@asynccontextmanager
async def acting(
    layout: Layout,
    threads: Threads,
    workspace_id: UUID,
    *,
    token: Token | None,
    timeout: float,
    first: Callable[[int], None] = lambda _lock_fd: None,
) -> AsyncIterator[int]:
    """Hold a workspace's lock and yield its descriptor; with a token, only if nobody outranks it.

    ``first`` is what to do as soon as that is so, in the same piece of thread work.
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
        lock.leave()


def _enter(layout: Layout, lock: Lock, token: Token | None, first: Callable[[int], None]) -> bool:
    """Blocking, for a thread, all of it at once. False: somebody else is busy with this workspace."""
    layout.check()
    if not lock.try_to_take():
        return False
    assert lock.fd is not None
    if token is not None:
        admit(lock.fd, token)
    first(lock.fd)
    return True


def highest_token(lock: Path) -> Token:
    """The highest token seen, or one below all others."""
    try:
        return _token_in(lock.read_bytes())
    except FileNotFoundError:
        return _NOBODY
    except OSError as error:
        raise unreadable(lock, error) from error


def admit(lock_fd: int, token: Token) -> None:
    """Remember a token as high as any before, refuse a lower one. The caller holds the lock.

    Dying right after this is harmless: the effect has not begun, and the same token is admitted again.
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
    """The caller holds the lock."""
    os.pwrite(lock_fd, _PORT % (port or 0), _TOKEN_BYTES)


def _token_in(content: bytes) -> Token:
    """Not synced to the disk: a power cut may leave half of it or nothing, and nobody who acted before."""
    try:
        op_seq, epoch = content[:_TOKEN_BYTES].split()
        return Token(int(op_seq), int(epoch))
    except ValueError:
        return _NOBODY


def stale(token: Token, highest: Token) -> EffectError:
    return EffectError(
        FailureCode.STALE_TOKEN,
        "a newer actor has taken this workspace over",
        token=[token.op_seq, token.epoch],
        highest=[highest.op_seq, highest.epoch],
    )
