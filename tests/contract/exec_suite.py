"""The promises of ``Runtime.exec``, as tests that every implementation runs.

Commands are shell scripts that run in a tiny image, on this machine, and as doubles in the fake runtime.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from codehub.domain.errors import EffectError, FailureCode, Reason
from codehub.runtimes.base import Runtime
from codehub.runtimes.exec_stream import ExecStream, Exit, Stream, TerminalSize
from codehub.runtimes.process_list import list_processes
from tests.contract.runtime_suite import FIRST, SECOND, RuntimeEnvironment, failure_of, start
from tests.support.waiting import until

MANY_BYTES = 16 * 1024**2
PATIENCE_SECONDS = 60.0

COUNT = "wc -c"
BOTH = "echo to stdout; echo to stderr >&2; exit 7"
SELF_KILL = "kill -9 $$"
TERMINATE = "kill -15 $$; cat"
SURROUNDINGS = 'printf "%s|%s|%s" "$GREETING" "$PWD" "$CODEHUB_WORKSPACE_ID"'
# Engines set the size a moment after the start, and in no order with the input.
TERMINAL = """
until [ "$(stty size)" = "40 100" ]; do sleep 0.05; done; echo ready; read -r line
until [ "$(stty size)" = "50 132" ]; do sleep 0.05; done; echo "$line, resized"; exit 5
"""
FOREGROUND = "set -m; sleep 1000; exit 0"
FAMILY = "sleep 1000 & echo $$ $!; wait"
IS_ALIVE = 'kill -0 "$1" 2>/dev/null'
UNTIL_END = 'cat >/dev/null; echo "ended by itself" >"$HOME/ended"'
SHOW = 'cat "$HOME/ended"'
DEAF = "echo ready; sleep 1000"
FLOOD = 'head -c 67108864 /dev/zero; echo x >"$HOME/flooded"'
IS_FLOODED = 'test -e "$HOME/flooded"'
FLOOD_BYTES = 64 * 1024**2


def sh(script: str, *arguments: str) -> list[str]:
    return ["sh", "-c", script, "test", *arguments]


async def all_of(stream: ExecStream) -> dict[Stream, bytes]:
    found = {Stream.STDOUT: bytearray(), Stream.STDERR: bytearray()}
    while (piece := await stream.read()) is not None:
        found[piece.stream] += piece.data
    return {name: bytes(data) for name, data in found.items()}


async def line_of(stream: ExecStream) -> str:
    """What comes until the first end of line."""
    said = b""
    while not said.endswith(b"\n"):
        piece = await stream.read()
        assert piece is not None, said
        said += piece.data
    return said.decode()


async def said_by(runtime: Runtime, ws: UUID, argv: list[str]) -> tuple[Exit, str]:
    async with await runtime.exec(ws, argv) as stream:
        await stream.close_stdin()
        output = await all_of(stream)
        return await stream.wait(), output[Stream.STDOUT].decode()


async def use_without_shell(runtime: Runtime, ws: UUID) -> None:
    """Run commands in the image ``bare``: surroundings, exit codes, and the end of one that ignores its input's."""
    program = "/busybox-server"
    async with patience():
        ended, said = await said_by(runtime, ws, [program, "pwd"])
        assert ended == Exit(0), said
        stream = await runtime.exec(ws, [program, "env"], env={"GREETING": "hello"}, cwd="/www")
        async with stream:
            said = (await all_of(stream))[Stream.STDOUT].decode()
        assert "GREETING=hello\n" in said
        assert (await said_by(runtime, ws, [program, "false"]))[0] == Exit(1)
        deaf = await runtime.exec(ws, [program, "sleep", "1000"], env={"DEAF": "yes"})
        await deaf.close(grace_seconds=0.1)
        ended, said = await said_by(runtime, ws, [program, "ps"])
        assert (ended.code, "sleep 1000" in said) == (0, False), said


@asynccontextmanager
async def patience() -> AsyncIterator[None]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        yield


@pytest.fixture
async def awake(environment: RuntimeEnvironment, runtime: Runtime, ws: UUID) -> UUID:
    """A workspace that runs."""
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    return ws


class ExecContract:
    async def test_bytes_go_in_and_come_out(self, runtime: Runtime, awake: UUID) -> None:
        async with patience(), await runtime.exec(awake, ["cat"]) as stream:
            await stream.write(b"hello\0\xff\n")
            piece = await stream.read()
            assert piece is not None
            assert (piece.stream, piece.data) == (Stream.STDOUT, b"hello\0\xff\n")
            await stream.close_stdin()
            assert await stream.read() is None
            assert await stream.read() is None
            assert await stream.wait() == Exit(0)

    async def test_many_bytes_go_both_ways_unchanged(self, runtime: Runtime, awake: UUID) -> None:
        sent = os.urandom(MANY_BYTES)
        async with patience(), await runtime.exec(awake, ["cat"]) as stream:

            async def send() -> None:
                for begin in range(0, len(sent), 100_000):
                    await stream.write(sent[begin : begin + 100_000])
                await stream.close_stdin()

            output, _ = await asyncio.gather(all_of(stream), send())
            received = output[Stream.STDOUT]
            assert len(received) == len(sent)
            assert hashlib.sha256(received).digest() == hashlib.sha256(sent).digest()
            assert (await stream.wait()).code == 0

    async def test_input_ends_while_output_goes_on(self, runtime: Runtime, awake: UUID) -> None:
        async with patience(), await runtime.exec(awake, sh(COUNT)) as stream:
            await stream.write(b"x" * 1000)
            await stream.close_stdin()
            assert (await all_of(stream))[Stream.STDOUT].split() == [b"1000"]
            assert (await stream.wait()).code == 0

    async def test_the_two_outputs_are_separate_and_the_exit_code_is_its_own(
        self, runtime: Runtime, awake: UUID
    ) -> None:
        async with patience(), await runtime.exec(awake, sh(BOTH)) as stream:
            assert await all_of(stream) == {Stream.STDOUT: b"to stdout\n", Stream.STDERR: b"to stderr\n"}
            assert await stream.wait() == Exit(7)
            await stream.write(b"nobody reads this")  # and nobody minds
            await stream.close_stdin()

    @pytest.mark.parametrize(("script", "signal"), [(SELF_KILL, 9), (TERMINATE, 15)])
    async def test_a_death_by_signal_is_told(
        self, runtime: Runtime, awake: UUID, script: str, signal: int
    ) -> None:
        async with patience(), await runtime.exec(awake, sh(script)) as stream:
            await all_of(stream)
            ended = await stream.wait()
            assert (ended.code, ended.signal) == (128 + signal, signal)

    async def test_a_program_that_does_not_exist_is_127_in_words(self, runtime: Runtime, awake: UUID) -> None:
        async with patience(), await runtime.exec(awake, ["no-such-program", "x"]) as stream:
            output = await all_of(stream)
            ended = await stream.wait()
            assert ended.code == 127
            assert output[Stream.STDOUT] == b""
            assert "no-such-program" in ended.message + output[Stream.STDERR].decode()

    async def test_a_directory_that_does_not_exist_is_126(self, runtime: Runtime, awake: UUID) -> None:
        async with patience(), await runtime.exec(awake, ["true"], cwd="/no/such/place") as stream:
            output = await all_of(stream)
            ended = await stream.wait()
            assert ended.code == 126
            assert "/no/such/place" in ended.message + output[Stream.STDERR].decode()

    async def test_environment_and_directory(self, runtime: Runtime, awake: UUID) -> None:
        greeting = 'it\'s "me" $HOME `id` \\ 한국어 -- =\nsecond line'
        stream = await runtime.exec(awake, sh(SURROUNDINGS), env={"GREETING": greeting}, cwd="/proc")
        async with patience(), stream:
            said = (await all_of(stream))[Stream.STDOUT].decode()
        assert said == f"{greeting}|/proc|{awake}"

    async def test_a_terminal_has_a_size_that_changes(self, runtime: Runtime, awake: UUID) -> None:
        async with patience(), await runtime.exec(awake, sh(TERMINAL), tty=TerminalSize(100, 40)) as stream:
            said = ""
            while "ready" not in said:
                said += await line_of(stream)
            await stream.resize(TerminalSize(132, 50))
            await stream.write(b"go on\n")
            output = await all_of(stream)
            assert output[Stream.STDERR] == b""
            assert "go on, resized" in output[Stream.STDOUT].decode()
            assert (await stream.wait()).code == 5

    @pytest.mark.parametrize("tty", [None, TerminalSize()], ids=["pipes", "terminal"])
    async def test_closing_kills_all_it_started(
        self, runtime: Runtime, awake: UUID, tty: TerminalSize | None
    ) -> None:
        async with patience():
            stream = await runtime.exec(awake, sh(FAMILY), tty=tty)
            pids = (await line_of(stream)).split()
            assert len(pids) == 2
            for pid in pids:
                assert (await said_by(runtime, awake, sh(IS_ALIVE, pid)))[0].code == 0
            await stream.close(grace_seconds=0.1)
            await stream.close()
            await self._are_gone(runtime, awake, pids)

    async def test_cancelling_who_uses_it_kills_it(self, runtime: Runtime, awake: UUID) -> None:
        said: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def use() -> None:
            async with await runtime.exec(awake, sh(FAMILY)) as stream:
                said.set_result(await line_of(stream))
                await stream.read()

        async with patience():
            using = asyncio.create_task(use())
            pids = (await said).split()
            using.cancel()
            await asyncio.wait([using])
            assert using.cancelled()
            await self._are_gone(runtime, awake, pids)

    async def _are_gone(self, runtime: Runtime, ws: UUID, pids: list[str]) -> None:
        for pid in pids:

            async def is_gone(pid: str = pid) -> bool:
                return (await said_by(runtime, ws, sh(IS_ALIVE, pid)))[0].code != 0

            await until(is_gone, what=f"the end of process {pid}", seconds=30)

    async def test_closing_lets_it_end_by_itself(self, runtime: Runtime, awake: UUID) -> None:
        async with patience():
            stream = await runtime.exec(awake, sh(UNTIL_END))
            await stream.write(b"x")
            await stream.close(grace_seconds=30)
            assert (await said_by(runtime, awake, sh(SHOW)))[1] == "ended by itself\n"

    async def test_writing_waits_for_who_does_not_read(self, runtime: Runtime, awake: UUID) -> None:
        async with patience(), await runtime.exec(awake, sh(DEAF)) as stream:
            await line_of(stream)

            async def send() -> None:
                for _ in range(1024):
                    await stream.write(b"x" * 65536)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(send(), 2)
            await stream.close(grace_seconds=0)

    async def test_a_command_waits_for_who_does_not_read_it(self, runtime: Runtime, awake: UUID) -> None:
        async with patience(), await runtime.exec(awake, sh(FLOOD)) as stream:
            piece = await stream.read()
            assert piece is not None
            for _ in range(5):
                assert (await said_by(runtime, awake, sh(IS_FLOODED)))[0].code != 0
            count = len(piece.data)
            while (piece := await stream.read()) is not None:
                count += len(piece.data)
            assert count == FLOOD_BYTES
            assert (await said_by(runtime, awake, sh(IS_FLOODED)))[0].code == 0

    async def test_two_at_once(self, runtime: Runtime, awake: UUID) -> None:
        async with (
            patience(),
            await runtime.exec(awake, ["cat"]) as one,
            await runtime.exec(awake, ["cat"]) as two,
        ):
            await one.write(b"one")
            await two.write(b"two")
            first, second = await one.read(), await two.read()
            assert first is not None
            assert second is not None
            assert (first.data, second.data) == (b"one", b"two")
            await one.close_stdin()
            assert await one.read() is None
            await two.write(b"still")
            again = await two.read()
            assert again is not None
            assert again.data == b"still"

    async def _ended_with_the_container(self, stream: ExecStream) -> None:
        ended: Exit | EffectError
        try:
            await all_of(stream)
            ended = await stream.wait()
        except EffectError as error:
            ended = error
        # Some engines forget the command with its container.
        told = ended.failure if isinstance(ended, EffectError) else ended.signal
        assert told in (9, 15, FailureCode.CONTAINER_ENDED)

    async def test_it_ends_with_the_container(
        self, environment: RuntimeEnvironment, runtime: Runtime, awake: UUID
    ) -> None:
        async with patience(), await runtime.exec(awake, sh(DEAF)) as stream:
            await line_of(stream)
            await environment.kill_container(awake)
            await runtime.stop(awake, token=SECOND)
            await self._ended_with_the_container(stream)

    async def test_stopping_ends_it(self, runtime: Runtime, awake: UUID) -> None:
        async with patience(), await runtime.exec(awake, sh(DEAF)) as stream:
            await line_of(stream)
            await runtime.stop(awake, token=SECOND)
            await self._ended_with_the_container(stream)

    async def test_nothing_runs_in_a_workspace_that_does_not_run(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        refused = FailureCode.CONTAINER_NOT_RUNNING
        assert await failure_of(runtime.exec(ws, ["true"])) is refused
        await runtime.provision(ws, token=FIRST)
        assert await failure_of(runtime.exec(ws, ["true"])) is refused
        await start(runtime, ws, image=environment.image)
        await environment.kill_container(ws)
        assert await failure_of(runtime.exec(ws, ["true"])) is refused

    async def test_an_engine_that_is_away_is_told(
        self, environment: RuntimeEnvironment, runtime: Runtime, awake: UUID
    ) -> None:
        await environment.break_engine()
        with pytest.raises(EffectError) as caught:
            await runtime.exec(awake, ["true"])
        assert caught.value.reason is Reason.UNREACHABLE

    async def test_another_installation_cannot_run_anything(
        self, environment: RuntimeEnvironment, runtime: Runtime, awake: UUID
    ) -> None:
        stranger = await environment.open("two")
        assert await failure_of(stranger.exec(awake, ["true"])) is FailureCode.CONTAINER_NOT_RUNNING


class HelperExecContract:
    """What engines need a helper for, ``inside`` or a shell: surroundings, and ending what goes on."""

    test_environment_and_directory = ExecContract.test_environment_and_directory
    test_a_program_that_does_not_exist_is_127_in_words = (
        ExecContract.test_a_program_that_does_not_exist_is_127_in_words
    )
    test_a_directory_that_does_not_exist_is_126 = ExecContract.test_a_directory_that_does_not_exist_is_126
    test_closing_kills_all_it_started = ExecContract.test_closing_kills_all_it_started
    _are_gone = ExecContract._are_gone


class EngineExecContract:
    """For runtimes whose engine is another process."""

    async def test_processes_are_listed_and_the_foreground_of_terminals_is_told(
        self, runtime: Runtime, awake: UUID
    ) -> None:
        async with patience():
            listed = await list_processes(runtime, awake)
            assert listed
            assert not any(each.is_job for each in listed)
            async with await runtime.exec(awake, sh(FOREGROUND), tty=TerminalSize()):

                async def is_told() -> bool:
                    found = await list_processes(runtime, awake) or []
                    return any(each.is_job for each in found)

                await until(is_told, what="the job in the terminal to be listed")

    async def test_an_engine_that_goes_away_is_no_end(
        self, environment: RuntimeEnvironment, runtime: Runtime, awake: UUID
    ) -> None:
        async with patience():
            stream = await runtime.exec(awake, ["cat"])
            await stream.write(b"hello")
            await stream.read()
            await environment.break_engine()
            with pytest.raises(EffectError) as caught:
                await stream.read()
            assert caught.value.reason is Reason.UNREACHABLE
            with pytest.raises(EffectError) as caught:
                await stream.wait()
            assert caught.value.reason is Reason.UNREACHABLE
            await stream.close()
