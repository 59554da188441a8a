"""From the intent to a workspace that answers, on Docker, against the bare engine calls behind it.

The other side makes the same container with the same client and nothing else: create the volume (new only),
create the container, start it, connect until its port answers. Ours ends when one request through the proxy
has been answered. So the ratio is what CodeHub adds: the intent, the row, the claim, the token, the looks
before and after, the news to the browser, and the way through the front door.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from tests.support.docker_api import DockerApi
from tests.support.docker_images import ensure_images, image

from bench.codehub_side import CodeHub, Events, codehub, events
from bench.runner import Bar, Measure, Report, take_turns
from codehub.runtimes.base import FencingToken, ResourceLimits
from codehub.runtimes.docker.containers import accepts
from codehub.runtimes.docker.engine import DockerEngine, Document
from codehub.runtimes.docker.inventory import address_of
from codehub.runtimes.docker.names import INSTALLATION, Names, ObjectRole
from codehub.runtimes.docker.network import PrivateNetwork
from codehub.runtimes.docker.order import Order, container_config
from codehub.server.settings.docker import DockerGroup

AT_MOST = 1.25
AT_ONCE = 20
TOKEN = FencingToken(1, 1)


async def one_at_a_time(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "docker-start",
        "Docker: POST → ready, one at a time (seconds)",
        bars=[
            Bar("seconds", "codehub new", "engine new", at_most=AT_MOST),
            Bar("seconds", "codehub wake", "engine wake", at_most=AT_MOST),
        ],
    )
    async with both(directory) as (ours, seen, bare):
        sleeping = await new_workspace(ours, seen)
        await stop_workspace(ours, seen, sleeping)
        home = uuid4()
        await bare.create_volume(home)
        sides: dict[str, Measure] = {
            "codehub new": lambda: _new_and_delete(ours, seen),
            "engine new": lambda: _bare_new(bare),
            "codehub wake": lambda: _wake(ours, seen, sleeping),
            "engine wake": lambda: _bare_wake(bare, home),
        }
        for side in sides.values():
            await side()
        await take_turns(report, sides, rounds=rounds)
        await bare.remove(home)
        await delete_workspace(ours, seen, sleeping)
    return report


async def at_once(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "docker-start-20",
        f"Docker: POST → ready, {AT_ONCE} at once (seconds in all)",
        bars=[Bar("seconds", "codehub", "engine", at_most=AT_MOST)],
    )
    async with both(directory) as (ours, seen, bare):
        sides: dict[str, Measure] = {
            "codehub": lambda: _burst(ours, seen),
            "engine": lambda: _bare_burst(bare),
        }
        for side in sides.values():
            await side()
        await take_turns(report, sides, rounds=rounds)
    return report


@dataclass
class Bare:
    """The engine's calls as the runtime makes them, without the runtime."""

    engine: DockerEngine
    names: Names
    network: str
    image: Document

    async def create_volume(self, workspace_id: UUID) -> None:
        labels = self.names.labels(workspace_id, ObjectRole.HOME, TOKEN)
        await self.engine.create_volume(self.names.home(workspace_id), labels=labels, driver="local")

    async def start(self, workspace_id: UUID) -> None:
        docker = DockerGroup()
        order = Order(
            workspace_id=workspace_id,
            token=TOKEN,
            image_ref=image("tiny"),
            env={},
            limits=ResourceLimits(memory_bytes=docker.memory, pids=docker.pids),
            base_path=f"/w/{workspace_id}/",
            stop_grace_seconds=10,
        )
        config = container_config(order, image=self.image, names=self.names, network=self.network)
        container_id = await self.engine.create_container(self.names.container(workspace_id), config)
        await self.engine.start_container(container_id)
        found = await self.engine.container(container_id)
        address = address_of(found["NetworkSettings"]["Networks"], found["Config"]["Labels"])
        assert address is not None
        while not await accepts(address):  # noqa: ASYNC110 - a port has no event
            await asyncio.sleep(0.005)

    async def end(self, workspace_id: UUID) -> None:
        await self.engine.remove_container(self.names.container(workspace_id))

    async def remove(self, workspace_id: UUID) -> None:
        await self.engine.remove_volume(self.names.home(workspace_id))


@asynccontextmanager
async def both(directory: Path, **variables: str) -> AsyncIterator[tuple[CodeHub, Events, Bare]]:
    """A CodeHub on Docker, its events, and the engine without it. ``variables``: more settings."""
    host = DockerGroup().host
    api = DockerApi(host)
    ensure_images(api, ["tiny", "job"])
    settings = {
        "CODEHUB_RUNTIME": "docker",
        "DOCKER_HOST": host,
        "DOCKER_IMAGES": image("tiny"),
        "DOCKER_JOB_IMAGE": image("job"),
        **variables,
    }
    names = Names(f"bench-{uuid4().hex[:8]}")
    engine = DockerEngine(host, call_seconds=60)
    installations = {names.installation_id}  # ours alone: others use this engine too
    try:
        network = await PrivateNetwork(engine, names).get()
        bare = Bare(engine, names, network, await engine.image(image("tiny")))
        async with codehub(directory, **settings) as ours, events(ours) as seen:
            first = await new_workspace(ours, seen)
            found = await engine.container(names.container(UUID(first)))
            installations.add(found["Config"]["Labels"][INSTALLATION])
            await delete_workspace(ours, seen, first)
            yield ours, seen, bare
    finally:
        await engine.close()
        for each in installations:
            api.remove_everything(f"{INSTALLATION}={each}")


async def _timed(call: Callable[[], Awaitable[object]]) -> Mapping[str, float]:
    began = time.perf_counter()
    await call()
    return {"seconds": time.perf_counter() - began}


async def new_workspace(hub: CodeHub, seen: Events) -> str:
    workspace_id = await hub.create(f"one-{uuid4().hex[:12]}", image=image("tiny"))
    await seen.until(workspace_id, "running")
    assert await hub.answers(workspace_id)
    return workspace_id


async def delete_workspace(hub: CodeHub, seen: Events, workspace_id: str) -> None:
    await hub.delete(workspace_id)
    await seen.until(workspace_id, "deleted")


async def stop_workspace(hub: CodeHub, seen: Events, workspace_id: str) -> None:
    await hub.ask(workspace_id, "stop")
    await seen.until(workspace_id, "standby")


async def _new_and_delete(hub: CodeHub, seen: Events) -> Mapping[str, float]:
    made: list[str] = []

    async def new() -> None:
        made.append(await new_workspace(hub, seen))

    figures = await _timed(new)
    await delete_workspace(hub, seen, made[0])
    return figures


async def _wake(hub: CodeHub, seen: Events, workspace_id: str) -> Mapping[str, float]:
    async def wake() -> None:
        await hub.ask(workspace_id, "start")
        await seen.until(workspace_id, "running")
        assert await hub.answers(workspace_id)

    figures = await _timed(wake)
    await stop_workspace(hub, seen, workspace_id)
    return figures


async def _burst(hub: CodeHub, seen: Events) -> Mapping[str, float]:
    made: list[str] = []

    async def new() -> None:
        made.extend(await asyncio.gather(*(new_workspace(hub, seen) for _ in range(AT_ONCE))))

    figures = await _timed(new)
    await asyncio.gather(*(delete_workspace(hub, seen, each) for each in made))
    return figures


async def _bare_new(bare: Bare) -> Mapping[str, float]:
    return await _bare_several(bare, [uuid4()])


async def _bare_burst(bare: Bare) -> Mapping[str, float]:
    return await _bare_several(bare, [uuid4() for _ in range(AT_ONCE)])


async def _bare_several(bare: Bare, ids: list[UUID]) -> Mapping[str, float]:
    async def one(workspace_id: UUID) -> None:
        await bare.create_volume(workspace_id)
        await bare.start(workspace_id)

    async def remove(workspace_id: UUID) -> None:
        await bare.end(workspace_id)
        await bare.remove(workspace_id)

    figures = await _timed(lambda: asyncio.gather(*(one(each) for each in ids)))
    await asyncio.gather(*(remove(each) for each in ids))
    return figures


async def _bare_wake(bare: Bare, home: UUID) -> Mapping[str, float]:
    figures = await _timed(lambda: bare.start(home))
    await bare.end(home)
    return figures
