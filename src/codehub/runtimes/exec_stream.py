"""A command that runs in a workspace's container, as a stream that knows its end.

Every runtime's ``exec`` returns an ``ExecStream``. Its promises, the same for all of them (``tests/contract``):

* ``read`` yields output as it comes and ``None`` once, at the end; who does not read stops the command, and a
  command that does not read stops ``write``: nothing is buffered without bound;
* standard input can be ended while output goes on, so ``tar`` and ``git`` work through it;
* a stream that is closed leaves no process: standard input ends, the command has a grace to end by itself, and
  after it the command and all it started are killed. What a command that ended by itself left behind is its own
  affair, as with ``ssh``.

What a command started is found by a mark in its environment, ``CODEHUB_EXEC_ID``: a process that is given another
environment on purpose, and whose parent has ended, is not found before the workspace stops.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

MARK = "CODEHUB_EXEC_ID"
PIECE_BYTES = 64 * 1024
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_SIGNALLED = 128


@dataclass(frozen=True)
class TerminalSize:
    """Size of a terminal in characters."""

    columns: int = 80
    rows: int = 24


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True)
class Output:
    """A piece of output. With a terminal all of it is ``STDOUT``."""

    stream: Stream
    data: bytes


@dataclass(frozen=True)
class Exit:
    """How a command ended. ``message``: why it could not be run (126, 127), where nobody wrote it to its output.

    Engines report a death by signal n as 128 + n, as shells do; a command that exits with such a code by itself
    cannot be told from it.
    """

    code: int
    message: str = ""

    @property
    def signal(self) -> int | None:
        return self.code - _SIGNALLED if _SIGNALLED < self.code <= _SIGNALLED + 64 else None


class ExecStream(ABC):
    """A running command. One task reads, one writes. Leaving ``async with`` closes it.

    Errors are ``EffectError``: the engine went away, or the container ended and the exit status is not known.
    """

    @abstractmethod
    async def read(self) -> Output | None:
        """The next piece of output, of whichever stream has one; None: both have ended."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Write to standard input; waits while the command does not read.

        What a command that has ended cannot read any more is dropped.
        """

    @abstractmethod
    async def close_stdin(self) -> None:
        """End standard input; output goes on. With a terminal, which cannot do that, nothing happens."""

    @abstractmethod
    async def resize(self, size: TerminalSize) -> None:
        """Change the terminal's size; nothing without one, or after the end."""

    @abstractmethod
    async def wait(self) -> Exit:
        """Wait for the end. Somebody must have read all output, or be reading it: a full pipe stops the command."""

    @abstractmethod
    async def close(self, *, grace_seconds: float = 1.0) -> None:
        """End the command: standard input ends, or the terminal; after the grace all it started is killed.

        Returns when that is confirmed. Nothing happens if the command has ended, or is closed already.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def exit_of(wait_status: int) -> Exit:
    """How a child of ours ended, from its negative or positive return code."""
    return Exit(wait_status if wait_status >= 0 else _SIGNALLED - wait_status)
