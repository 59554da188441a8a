"""Two replicas as real processes: the leader is killed or frozen in every operation, the other finishes.

Each case stops the leader dead at one point of one operation, before, during or after its effect. What
must hold afterwards is always the same: the walk goes on to where it was going, no file is lost, nothing
runs twice.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Integer, Text

from codehub.domain.states import ObservedStatus, Operation
from codehub.store.db.typed_text import typed_text
from tests.integration.control.engines import ON_CLUSTER, on_both
from tests.integration.control.test_walk import read_home, write_home
from tests.support.control import ControlEnvironment
from tests.support.waiting import until


class Process:
    """A replica, and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[dict[str, Any]] = []
        self._reader = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        return self.process.pid

    async def until_said(self, event: str, *, seconds: float = 120) -> dict[str, Any]:
        async def said() -> bool:
            assert self.process.returncode is None or self.heard(event), "the replica died"
            return self.heard(event) is not None

        await until(said, seconds=seconds, what=f"the replica to say {event!r}")
        found = self.heard(event)
        assert found is not None
        return found

    def heard(self, event: str) -> dict[str, Any] | None:
        return next((each for each in self.said if each["event"] == event), None)

    def calls(self) -> list[str]:
        return [each["name"] for each in self.said if each["event"] == "call" and each["when"] == "before"]

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        if self.process.returncode is None:
            os.kill(self.pid, signal.SIGCONT)
            self.process.terminate()
        await asyncio.wait_for(self.process.wait(), 30)
        await self._reader

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if line.startswith(b"{"):
                self.said.append(json.loads(line))


class Pair:
    def __init__(self, environment: ControlEnvironment, stack: AsyncExitStack) -> None:
        self.environment = environment
        self._stack = stack

    async def launch(
        self,
        node_id: str,
        *,
        pause: tuple[str, str] | None = None,
        idle_timeout: str | None = None,
        settings: dict[str, str] | None = None,
    ) -> Process:
        config: dict[str, Any] = {
            "node_id": node_id,
            "database_url": self.environment.database_url,
            "redis_url": self.environment.redis_url,
            "data_dir": str(self.environment.data_dir),
            "runtime": self.environment.runtime_config,
            "pause": pause,
            "settings": settings or {},
        }
        if idle_timeout is not None:
            config["session_settings"] = {"idle_session_timeout": idle_timeout}
            config["settings"] |= {"COORDINATOR_VERIFY_INTERVAL": "0.3"}
        process = Process(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.support.replica",
                json.dumps(config),
                stdout=asyncio.subprocess.PIPE,
                cwd=Path(__file__).parents[3],
            )
        )
        self._stack.push_async_callback(process.end)
        return process

    async def leader_and_heir(self, **first: Any) -> tuple[Process, Process]:
        leader = await self.launch("leader", **first)
        await leader.until_said("leading")
        return leader, await self.launch_heir()

    async def launch_heir(self, **given: Any) -> Process:
        """A second replica that already waits in the server's queue for all five locks."""
        heir = await self.launch("heir", **given)

        async def queueing() -> bool:
            async with self.environment.sessions() as session:
                waiting = await session.exec(
                    typed_text(
                        "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
                        " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()",
                        Integer(),
                    )
                )
            return waiting.one() >= 5

        await until(queueing, seconds=60, what="the heir to queue")
        return heir


@pytest.fixture
async def pair(environment: ControlEnvironment) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        yield Pair(environment, stack)
        await environment.end_workspaces()


async def settled(environment: ControlEnvironment, workspace_id: UUID, status: ObservedStatus) -> None:
    async def there() -> bool:
        ws = await environment.view(workspace_id)
        return ws.operation is Operation.NONE and ws.observed_status is status

    await until(there, seconds=max(60, environment.patience), what=f"the workspace to settle at {status}")


@asynccontextmanager
async def prepared(
    environment: ControlEnvironment, state: str
) -> AsyncIterator[tuple[UUID, dict[str, bytes]]]:
    """A workspace that has reached ``state`` with files in it, and no replica running."""
    async with environment.replica(keep_workspaces=True):
        workspace_id = await environment.create(start=state != "new")
        kept: dict[str, bytes] = {}
        if state != "new":
            await environment.until_status(workspace_id, "running")
            kept = write_home(environment.home(workspace_id))
        if state in ("standby", "archived"):
            await environment.intent(workspace_id, {"standby": "stop", "archived": "archive"}[state])
            await environment.until_status(workspace_id, state)
    yield workspace_id, kept


KILLS = [
    ("new", "start", "provision", "before"),
    ("new", "start", "provision", "after"),
    ("standby", "start", "start", "before"),
    ("standby", "start", "start", "after"),
    ("running", "stop", "stop", "before"),
    ("running", "stop", "stop", "after"),
    ("standby", "archive", "archive", "before"),
    ("standby", "archive", "archive", "during"),
    ("standby", "archive", "archive", "after"),
    ("standby", "archive", "delete_volume", "before"),
    ("standby", "archive", "delete_volume", "after"),
    ("archived", "start", "restore", "before"),
    ("archived", "start", "restore", "during"),
    ("archived", "start", "restore", "after"),
    ("running", "delete", "delete_volume", "before"),
    ("running", "delete", "delete_volume", "after"),
]
KILLS_ON_CLUSTER = [
    ("standby", "start", "start", "after"),
    ("running", "stop", "stop", "after"),
    ("standby", "archive", "archive", "during"),
    ("standby", "archive", "delete_volume", "before"),
    ("archived", "start", "restore", "during"),
    ("running", "delete", "delete_volume", "after"),
]
"""One or two of each operation: what differs there is what the effect is made of."""

TARGET = {
    "start": ObservedStatus.RUNNING,
    "stop": ObservedStatus.STANDBY,
    "archive": ObservedStatus.PENDING,
    "delete": ObservedStatus.DELETED,
}


@pytest.mark.parametrize(
    ("environment", "state", "intent", "call", "when"),
    [
        *(("local", *each) for each in KILLS),
        *(pytest.param("kubernetes", *each, marks=ON_CLUSTER) for each in KILLS_ON_CLUSTER),
    ],
    ids=str,
    indirect=["environment"],
)
async def test_the_leader_dies_and_the_other_finishes(
    environment: ControlEnvironment, pair: Pair, state: str, intent: str, call: str, when: str
) -> None:
    async with prepared(environment, state) as (workspace_id, kept):
        leader, heir = await pair.leader_and_heir(pause=(call, when))
        await environment.intent(workspace_id, intent)
        await leader.until_said("paused")
        before = await environment.view(workspace_id)
        killed_at = time.time()
        leader.kill()
        took_over = (await heir.until_said("leading"))["at"] - killed_at
        await settled(environment, workspace_id, TARGET[intent])
        print(f"take-over after kill -9 {when} {call}: {took_over * 1000:.0f} ms")

        ws = await environment.view(workspace_id)
        assert ws.error_info is None
        if intent != "start" or state != "new":
            # Adopted, not begun anew (a start from "new" goes on with STARTING).
            assert ws.op_seq in (before.op_seq, before.op_seq + 1)
        if intent == "start":
            assert environment.servers_of(workspace_id) == 1
            assert read_home(environment.home(workspace_id)) == kept
        if intent == "stop":
            assert environment.servers_of(workspace_id) == 0
            assert read_home(environment.home(workspace_id)) == kept
        if intent == "archive":
            await assert_archived(environment, workspace_id, kept)
        if intent == "delete":
            assert not environment.home(workspace_id).exists()
            assert environment.servers_of(workspace_id) == 0


async def assert_archived(
    environment: ControlEnvironment, workspace_id: UUID, kept: dict[str, bytes]
) -> None:
    """One committed archive, and every file comes back out of it."""
    committed = await environment.archives().find_committed(workspace_id)
    ws = await environment.view(workspace_id)
    assert [each.path.key for each in committed] == [ws.archive_key]
    await environment.intent(workspace_id, "start")
    await environment.until_status(workspace_id, "running")
    assert read_home(environment.home(workspace_id)) == kept


@pytest.mark.parametrize(
    ("environment", "call"),
    [
        *(("local", each) for each in ("start", "archive", "delete_volume")),
        *(pytest.param("kubernetes", each, marks=ON_CLUSTER) for each in ("start", "delete_volume")),
    ],
    indirect=["environment"],
)
async def test_a_frozen_leader_thaws_and_harms_nobody(
    environment: ControlEnvironment, pair: Pair, call: str
) -> None:
    """SIGSTOP for longer than its session may idle; the heir finishes; then the old leader wakes up."""
    state, intent = ("standby", "start") if call == "start" else ("standby", "archive")
    async with prepared(environment, state) as (workspace_id, kept):
        leader = await pair.launch("leader", pause=(call, "before"), idle_timeout="1s")
        await leader.until_said("leading")
        heir = await pair.launch_heir()
        await environment.intent(workspace_id, intent)
        await leader.until_said("paused")
        os.kill(leader.pid, signal.SIGSTOP)
        await heir.until_said("leading")
        await settled(environment, workspace_id, TARGET[intent])
        os.kill(leader.pid, signal.SIGCONT)
        await leader.until_said("following")
        assert heir.heard("following") is None
        if intent == "start":
            assert environment.servers_of(workspace_id) == 1
            assert read_home(environment.home(workspace_id)) == kept
        else:
            await assert_archived(environment, workspace_id, kept)


USUAL = {
    "COORDINATOR_VERIFY_INTERVAL": "4",
    "OBSERVER_INTERVAL": "10",
    "RECONCILER_INTERVAL": "10",
    "TTL_INTERVAL": "60",
    "GC_INTERVAL": "3600",
}
"""The defaults: with intervals this long only the verification keeps a leader's session from being ended."""


async def test_a_frozen_leader_is_replaced_in_twelve_seconds_and_an_idle_one_is_not(
    environment: ControlEnvironment, pair: Pair
) -> None:
    leader = await pair.launch("leader", settings=USUAL)
    await leader.until_said("leading")
    await pair.launch_heir(settings=USUAL)
    os.kill(leader.pid, signal.SIGSTOP)
    frozen_at = time.monotonic()

    async def terms() -> dict[str, tuple[str, int]]:
        async with environment.sessions() as session:
            rows = await session.exec(
                typed_text("SELECT lock_name, holder_id, epoch FROM system_locks", Text(), Text(), Integer())
            )
        return {name: (holder, epoch) for name, holder, epoch in rows}

    async def all_replaced() -> bool:
        return {holder for holder, _ in (await terms()).values()} == {"heir"}

    await until(all_replaced, seconds=60, what="the heir to lead all five")
    took = time.monotonic() - frozen_at
    print(f"all five replaced {took:.1f} s after SIGSTOP")
    assert took < 12.5
    inherited = await terms()

    async def longer_than_a_silent_session_lasts() -> bool:
        return time.monotonic() - frozen_at - took > 11.5

    await until(longer_than_a_silent_session_lasts)
    assert await terms() == inherited


@on_both
async def test_a_storage_job_that_outlives_its_leader_is_ended_by_the_next(
    environment: ControlEnvironment, pair: Pair
) -> None:
    async with prepared(environment, "standby") as (workspace_id, _):
        big = environment.home(workspace_id) / "big"
        with big.open("wb") as file:
            for _ in range(64):
                file.write(os.urandom(1 << 20))
        kept = read_home(environment.home(workspace_id))
        leader, heir = await pair.leader_and_heir(pause=("archive", "during"))
        await environment.intent(workspace_id, "archive")
        await leader.until_said("paused")
        leader.kill()  # its job goes on, and holds the workspace's lock
        await heir.until_said("leading")
        await settled(environment, workspace_id, ObservedStatus.PENDING)
        await assert_archived(environment, workspace_id, kept)


async def test_sigterm_hands_over_before_the_process_has_gone(
    environment: ControlEnvironment, pair: Pair
) -> None:
    async with prepared(environment, "new") as (workspace_id, _):
        leader, heir = await pair.leader_and_heir()
        leader.process.terminate()
        await heir.until_said("leading")
        await environment.intent(workspace_id, "start")
        await settled(environment, workspace_id, ObservedStatus.RUNNING)
        await leader.process.wait()
        assert leader.process.returncode == 0
