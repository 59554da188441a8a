"""On a cluster: from the intent to a workspace that answers, beside bare pods and JupyterHub's kubespawner.

A bare pod is what ``kubectl apply`` of the same claim and pod takes until its port answers; beside it the same by one
call of the API each, without that program, which is the least a start can take. JupyterHub's servers are
the same image on claims of the same class. Ready means for CodeHub and JupyterHub: a request through the front door has
been answered. What 500 running workspaces cost is measured on a node without containers, because no container is part
of it: their pods are real objects of a real API server, and a task of this program says Running for their kubelet.
"""

# ruff: noqa: T201, ASYNC110 - a program that prints; what is waited for is in another process
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg

from bench.codehub_side import CodeHub, Events, codehub, events
from bench.idle import ARE_RUNNING
from bench.jupyterhub_side import JupyterHub, jupyterhub
from bench.kubernetes_side import (
    FAKE_PLACEMENT,
    BarePods,
    Place,
    cluster_for_measuring,
    fake_node,
    place_on,
)
from bench.processes import cpu_seconds, tree
from bench.runner import Bar, Measure, Report, take_turns
from codehub.runtimes.kubernetes.names import INSTALLATION
from codehub.runtimes.kubernetes.runtime import KubernetesRuntime
from codehub.runtimes.kubernetes.settings import JobSettings

AT_ONCE = int(os.environ.get("BENCH_AT_ONCE", "50"))
MANY = int(os.environ.get("BENCH_MANY", "500"))
BARE, PEER = 1.15, 0.9
OBSERVE_MS = 100.0
OBSERVATIONS = 15
IDLE_SECONDS = 60.0
ARCHIVE_ROUNDS = 3
STARTING_AT_ONCE = 25


async def one_at_a_time(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "kubernetes",
        "Kubernetes: POST → ready (seconds)",
        bars=[
            Bar("seconds", "codehub new", "kubectl apply, new home", at_most=BARE),
            Bar("seconds", "codehub wake", "kubectl apply", at_most=BARE),
            Bar("seconds", "codehub new", "jupyterhub new", at_most=PEER),
            Bar("seconds", "codehub wake", "jupyterhub again", at_most=PEER),
        ],
    )
    with cluster_for_measuring() as cluster:
        async with place_on(cluster) as place:
            await _starts(report, directory, place, rounds=rounds)
    return report


async def at_once(directory: Path, *, rounds: int) -> Report:
    burst = f"{AT_ONCE} at once"
    report = Report(
        "kubernetes-50",
        f"Kubernetes: {AT_ONCE} at once, POST → ready (seconds)",
        bars=[
            Bar("seconds in all", f"codehub {burst}", f"bare pods {burst}", at_most=BARE),
            Bar("seconds in all", f"codehub {burst}", f"jupyterhub {burst}", at_most=PEER),
        ],
    )
    with cluster_for_measuring() as cluster:
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(place_on(cluster))
            hub = await stack.enter_async_context(codehub(directory, **place.variables()))
            seen = await stack.enter_async_context(events(hub))
            peer = await stack.enter_async_context(jupyterhub(directory, spawner=place.spawner()))
            bare = BarePods(place)
            await _new_and_delete(hub, seen)
            many: dict[str, Measure] = {
                f"codehub {burst}": lambda: _burst(hub, seen),
                f"bare pods {burst}": lambda: _bare(bare, [uuid4() for _ in range(AT_ONCE)], new=True),
                f"jupyterhub {burst}": lambda: _jupyter_burst(peer),
            }
            await take_turns(report, many, rounds=rounds)
    return report


async def many_running(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "kubernetes-many",
        f"Kubernetes: {MANY} running",
        bars=[Bar("observe ms", f"codehub {MANY} running", at_most=OBSERVE_MS)],
    )
    with cluster_for_measuring() as cluster:
        async with place_on(cluster) as place:
            await _many_running(report, directory, place, rounds=rounds)
    report.notes.append(f"{MANY} running: pods without containers, on a node that this program speaks for.")
    return report


async def _starts(report: Report, directory: Path, place: Place, *, rounds: int) -> None:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(codehub(directory, **place.variables()))
        seen = await stack.enter_async_context(events(hub))
        peer = await stack.enter_async_context(jupyterhub(directory, spawner=place.spawner()))
        bare, applied = BarePods(place), BarePods(place, kubectl=True)
        sleeping = await _new(hub, seen)
        await _until(hub, seen, sleeping, "stop", "standby")
        home = uuid4()
        await bare.create_home(home)
        await peer.add_users(["again"])
        one: dict[str, Measure] = {
            "codehub new": lambda: _new_and_delete(hub, seen),
            "bare pod, new home": lambda: _bare(bare, [uuid4()], new=True),
            "kubectl apply, new home": lambda: _bare(applied, [uuid4()], new=True),
            "jupyterhub new": lambda: _jupyter_new(peer),
            "codehub wake": lambda: _wake(hub, seen, sleeping, back="standby"),
            "bare pod": lambda: _bare(bare, [home], new=False),
            "kubectl apply": lambda: _bare(applied, [home], new=False),
            "jupyterhub again": lambda: _jupyter(peer, ["again"]),
        }
        for side in one.values():
            await side()
        await take_turns(report, one, rounds=rounds)
        await _until(hub, seen, sleeping, "archive", "archived")
        archived: dict[str, Measure] = {
            "codehub wake from archive": lambda: _wake(hub, seen, sleeping, back="archived")
        }
        await take_turns(report, archived, rounds=min(rounds, ARCHIVE_ROUNDS))


# --- one side's turn --------------------------------------------------------------------------------


async def _timed(
    call: Callable[[], Awaitable[object]], *, pids: Callable[[], list[int]] = list, each: int = 1
) -> Mapping[str, float]:
    measured = pids()
    before, began = cpu_seconds(measured), time.perf_counter()
    await call()
    took = time.perf_counter() - began
    figures = {"seconds" if each == 1 else "seconds in all": took}
    if measured:
        figures["control-plane CPU ms each"] = (cpu_seconds(pids()) - before) / each * 1000
    return figures


async def _new(hub: CodeHub, seen: Events) -> str:
    workspace_id = await hub.create(f"one-{uuid4().hex[:12]}", image="tiny")
    await seen.until(workspace_id, "running")
    assert await hub.answers(workspace_id)
    return workspace_id


async def _until(hub: CodeHub, seen: Events, workspace_id: str, verb: str, status: str) -> None:
    await hub.ask(workspace_id, verb)
    await seen.until(workspace_id, status)


async def _delete(hub: CodeHub, seen: Events, workspace_id: str) -> None:
    await hub.delete(workspace_id)
    await seen.until(workspace_id, "deleted")


async def _new_and_delete(hub: CodeHub, seen: Events) -> Mapping[str, float]:
    made: list[str] = []

    async def new() -> None:
        made.append(await _new(hub, seen))

    figures = await _timed(new, pids=hub.pids)
    await _delete(hub, seen, made[0])
    return figures


async def _wake(hub: CodeHub, seen: Events, workspace_id: str, *, back: str) -> Mapping[str, float]:
    async def wake() -> None:
        await _until(hub, seen, workspace_id, "start", "running")
        assert await hub.answers(workspace_id)

    figures = await _timed(wake, pids=hub.pids)
    await _until(hub, seen, workspace_id, "stop" if back == "standby" else "archive", back)
    return figures


async def _burst(hub: CodeHub, seen: Events) -> Mapping[str, float]:
    made: list[str] = []

    async def new() -> None:
        made.extend(await asyncio.gather(*(_new(hub, seen) for _ in range(AT_ONCE))))

    figures = await _timed(new, pids=hub.pids, each=AT_ONCE)
    await asyncio.gather(*(_delete(hub, seen, each) for each in made))
    return figures


async def _bare(bare: BarePods, ids: list[UUID], *, new: bool) -> Mapping[str, float]:
    async def one(workspace_id: UUID) -> None:
        if new:
            await bare.create_home(workspace_id)
        await bare.start(workspace_id)

    figures = await _timed(lambda: asyncio.gather(*map(one, ids)), each=len(ids))
    await asyncio.gather(*map(bare.end, ids))
    if new:
        for each in ids:
            bare.remove_home(each)
    return figures


async def _jupyter_new(peer: JupyterHub) -> Mapping[str, float]:
    names = [f"new-{uuid4().hex[:8]}"]
    await peer.add_users(names)
    return await _jupyter(peer, names)


async def _jupyter_burst(peer: JupyterHub) -> Mapping[str, float]:
    batch = uuid4().hex[:8]
    names = [f"{batch}-{number}" for number in range(AT_ONCE)]
    await peer.add_users(names)
    return await _jupyter(peer, names)


async def _jupyter(peer: JupyterHub, names: list[str]) -> Mapping[str, float]:
    async def one(name: str) -> None:
        await peer.start(name)
        assert await peer.is_routed(name)

    figures = await _timed(lambda: asyncio.gather(*map(one, names)), pids=peer.pids, each=len(names))
    await asyncio.gather(*map(peer.stop, names))
    return figures


# --- many that run ----------------------------------------------------------------------------------


async def _many_running(report: Report, directory: Path, place: Place, *, rounds: int) -> None:
    async with (
        fake_node(place) as port,
        codehub(directory, **place.variables(port=port), **FAKE_PLACEMENT) as hub,
    ):
        await _start_many(hub)
        side = f"codehub {MANY} running"
        for milliseconds in await _observe(place):
            report.add(side, {"observe ms": milliseconds})
        for number in range(rounds):
            pids = tree([hub.pid])
            before, began = cpu_seconds(pids), time.perf_counter()
            await asyncio.sleep(IDLE_SECONDS)
            took = time.perf_counter() - began
            report.add(side, {"idle CPU %": (cpu_seconds(pids) - before) / took * 100})
            print(f"  round {number + 1}/{rounds}  {side}", flush=True)


async def _start_many(hub: CodeHub) -> None:
    at_once = asyncio.Semaphore(STARTING_AT_ONCE)

    async def one(number: int) -> None:
        async with at_once:
            await hub.create(f"many-{number}", image="tiny")

    await asyncio.gather(*(one(number) for number in range(MANY)))
    connection = await asyncpg.connect(hub.database_url)
    try:
        async with asyncio.timeout(1200):
            while await connection.fetchval(ARE_RUNNING) < MANY:
                await asyncio.sleep(0.5)
    finally:
        await connection.close()


async def _observe(place: Place) -> list[float]:
    """Times of the observer's look at everything, by a runtime like CodeHub's own."""
    (pod, *_) = (await place.api.list(f"/api/v1/namespaces/{place.namespace}/pods"))[:1]
    installation = pod["metadata"]["labels"][INSTALLATION]
    jobs = JobSettings(image="none", archive_url="s3://none", env={})
    runtime = KubernetesRuntime(installation, place.settings, api=place.api, jobs=jobs)
    times = []
    for _ in range(OBSERVATIONS):
        began = time.perf_counter()
        seen = await runtime.observe()
        times.append((time.perf_counter() - began) * 1000)
        assert len(seen.sightings) == MANY
    return times
