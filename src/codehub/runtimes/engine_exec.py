"""What the exec streams of engines share: a container's end, closing, and who is told of it.

For engines that are processes of their own, where a command ends without us: the exit is learned from the engine, and a
command is ended by a second exec (``exec_commands``).
"""

import asyncio
import re
from abc import abstractmethod
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.tasks import finish
from codehub.runtimes.exec_stream import ExecStream, Exit, TerminalSize

KILL_SECONDS = 20.0
NO_PROGRAM = re.compile(r"executable file not found|stat .*: no such file or directory")


class EngineExec(ExecStream):
    """A command that an engine runs. Subclasses read, write and ``_end`` it, and tell its exit once."""

    def __init__(self, *, tty: bool) -> None:
        self._tty = tty
        self._ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._closed = False

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    async def close(self, *, grace_seconds: float = 1.0) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if not self._ended.done():
                await self._end(grace_seconds)
        finally:
            self._fail(EffectError(FailureCode.EXEC_FAILED, "The command was closed before it had ended."))
            await self._disconnect()

    async def begin(self, tty: TerminalSize | None) -> None:
        """Set the terminal's first size. A command that cannot be used is ended."""
        if tty is None:
            return
        try:
            await self.resize(tty)
        except BaseException:
            await finish(self.close(grace_seconds=0))
            raise

    @abstractmethod
    async def _end(self, grace_seconds: float) -> None:
        """End the command, which runs, and confirm it."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Close the connection. Called once."""

    def _tell(self, ended: Exit) -> None:
        if not self._ended.done():
            self._ended.set_result(ended)

    def _fail(self, error: EffectError) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
        self._ended.exception()  # mark it as retrieved: nobody need wait


def not_running(workspace_id: UUID, why: str) -> EffectError:
    return EffectError(
        FailureCode.CONTAINER_NOT_RUNNING,
        f"A command can run only while the workspace runs: {why}",
        workspace=str(workspace_id),
    )


def container_ended(detail: str = "") -> EffectError:
    return EffectError(
        FailureCode.CONTAINER_ENDED, "The container ended, and the command with it.", detail=detail
    )


def could_not_end() -> EffectError:
    return EffectError(
        FailureCode.EXEC_FAILED, "A command could not be ended: it goes on until the workspace stops."
    )
