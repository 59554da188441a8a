"""The runtime of the simulations keeps the same promises as the real ones, or they would prove nothing."""

from uuid import UUID

import pytest

from codehub.runtimes.base import Runtime
from tests.contract.exec_suite import EngineExecContract, ExecContract, awake
from tests.contract.fake_programs import PROGRAMS
from tests.contract.runtime_suite import HomeUsersContract, NodesContract, RuntimeContract, runtime, ws
from tests.support.fake_runtime import Behaviour, FakeEngine, FakeRuntime

__all__ = ["awake", "runtime", "ws"]


class FakeEnvironment:
    image = "fake"
    failing_image = "wrong"

    def __init__(self) -> None:
        self.engines: dict[str, FakeEngine] = {}

    async def open(self, installation: str = "one") -> Runtime:
        return FakeRuntime(self._engine(installation))

    async def kill_container(self, workspace_id: UUID) -> None:
        self._engine().kill_container(workspace_id)

    async def kill_job(self, workspace_id: UUID) -> None:
        job = self._engine().place(workspace_id).job
        assert job is not None
        job.task.cancel()

    async def write(self, workspace_id: UUID, name: str, content: str) -> None:
        volume = self._engine().place(workspace_id).volume
        assert volume is not None
        volume[name] = content.encode()

    async def read(self, workspace_id: UUID, name: str) -> str | None:
        content = (self._engine().place(workspace_id).volume or {}).get(name)
        return None if content is None else content.decode()

    async def let_jobs(self, workspace_id: UUID, behaviour: str) -> None:
        self._engine().place(workspace_id).behaviour = Behaviour(behaviour)

    async def let_stranger_in(self, workspace_id: UUID) -> None:
        self._engine().place(workspace_id).stranger = "somebody"

    async def send_stranger_away(self, workspace_id: UUID) -> None:
        self._engine().place(workspace_id).stranger = None

    async def open_without_nodes(self) -> Runtime:
        self._engine().no_node = "0/2 nodes are available"
        return await self.open()

    async def add_node(self) -> None:
        self._engine().no_node = None

    async def break_engine(self) -> None:
        self._engine().go_away()

    def _engine(self, installation: str = "one") -> FakeEngine:
        if installation not in self.engines:
            engine = FakeEngine(images=(self.image, self.failing_image))
            engine.failing_images.add(self.failing_image)
            engine.programs |= PROGRAMS
            self.engines[installation] = engine
        return self.engines[installation]


@pytest.fixture
def environment() -> FakeEnvironment:
    return FakeEnvironment()


class TestFakeRuntime(RuntimeContract, HomeUsersContract, NodesContract, ExecContract, EngineExecContract):
    pass
