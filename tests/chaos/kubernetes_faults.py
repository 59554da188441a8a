"""Faults of a Kubernetes cluster under a round: its control plane, its nodes, and the way to its API server."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping

from tests.chaos.environment import ChaosEnvironment
from tests.chaos.faults import KILL, Fault
from tests.chaos.kubernetes_setup import KubernetesSetup
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import NODE_GRACE_SECONDS
from tests.cluster.settings import NODES
from tests.cluster.waiting import until
from tests.support.faulty_api_server import Trouble

Strike = Callable[[ChaosEnvironment, random.Random], Awaitable[None]]


def _kill(kind: str, *, seconds: float = 6.0) -> Strike:
    """kill -9 of a part of the control plane, or of a part of one node; it is back after a while."""

    async def strike(environment: ChaosEnvironment, chance: random.Random) -> None:
        cluster, part = _cluster(environment), _part(kind, chance)
        with _setup(environment).manager.suspended():
            await asyncio.to_thread(cluster.kill, part)
            await asyncio.sleep(chance.uniform(0, seconds))
            await asyncio.to_thread(cluster.start_part, part)

    return strike


def _restart(kind: str) -> Strike:
    async def strike(environment: ChaosEnvironment, chance: random.Random) -> None:
        with _setup(environment).manager.suspended():
            await asyncio.to_thread(_cluster(environment).restart, _part(kind, chance))

    return strike


async def restart_store(environment: ChaosEnvironment, chance: random.Random) -> None:
    """kill -9 of etcd. The API server ends itself if it is away for long, and is started again."""
    cluster = _cluster(environment)
    with _setup(environment).manager.suspended():
        await asyncio.to_thread(cluster.kill, "etcd")
        await asyncio.sleep(chance.uniform(0, 4))
        await asyncio.to_thread(cluster.start_part, "etcd")


async def freeze_api_server(environment: ChaosEnvironment, chance: random.Random) -> None:
    """SIGSTOP: it takes connections and does not answer."""
    cluster = _cluster(environment)
    cluster.freeze("apiserver")
    try:
        await asyncio.sleep(chance.uniform(2, 10))
    finally:
        cluster.thaw("apiserver")


async def partition_node(environment: ChaosEnvironment, chance: random.Random) -> None:
    """Cut a node off for less than anybody would notice. Its pods run on and write."""
    cluster, node = _cluster(environment), chance.choice(NODES)
    await asyncio.to_thread(cluster.partition, node)
    try:
        await asyncio.sleep(chance.uniform(2, 12))
    finally:
        await asyncio.to_thread(cluster.heal, node)


async def partition_node_for_long(environment: ChaosEnvironment, chance: random.Random) -> None:
    """Cut a node off until the control plane has given it up. Its pods run on and write."""
    cluster, node = _cluster(environment), chance.choice(NODES)
    await asyncio.to_thread(cluster.partition, node)
    try:
        await asyncio.to_thread(_until_given_up, cluster, node)
        await asyncio.sleep(chance.uniform(0, 10))
    finally:
        await asyncio.to_thread(cluster.heal, node)


async def lose_node(environment: ChaosEnvironment, chance: random.Random) -> None:
    """The power of a node fails: whatever ran there has ended. It comes back with its disk."""
    cluster, node = _cluster(environment), chance.choice(NODES)
    with _setup(environment).manager.suspended():
        await asyncio.to_thread(cluster.lose, node)
        await asyncio.sleep(chance.uniform(0, 5))
        await asyncio.to_thread(cluster.mend)


def _trouble(trouble: Trouble) -> Strike:
    async def strike(environment: ChaosEnvironment, chance: random.Random) -> None:
        server = _setup(environment).api_server
        server.begin(trouble)
        try:
            await asyncio.sleep(chance.uniform(2, 8))
        finally:
            server.heal()

    return strike


def _until_given_up(cluster: Cluster, node: str) -> None:
    until(lambda: not cluster.is_ready(node), f"{node} is given up", seconds=4 * NODE_GRACE_SECONDS)


def _part(kind: str, chance: random.Random) -> str:
    return f"{kind}-{chance.choice(NODES)}" if kind in ("kubelet", "containerd") else kind


def _setup(environment: ChaosEnvironment) -> KubernetesSetup:
    assert isinstance(environment.setup, KubernetesSetup)
    return environment.setup


def _cluster(environment: ChaosEnvironment) -> Cluster:
    return _setup(environment).cluster


KUBERNETES_FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        KILL,
        Fault("API server kill -9", _kill("apiserver")),
        Fault("API server restart", _restart("apiserver")),
        Fault("API server frozen", freeze_api_server),
        Fault("API server answers 429", _trouble(Trouble(status=429))),
        Fault("API server answers 503", _trouble(Trouble(status=503))),
        Fault("API server acts and answers 504", _trouble(Trouble(status=504, acts=True))),
        Fault("API server slow", _trouble(Trouble(delay_seconds=1.5))),
        Fault("watches too old (410)", _trouble(Trouble(expires_watches=True))),
        Fault("etcd kill -9", restart_store),
        Fault("kubelet kill -9", _kill("kubelet")),
        Fault("containerd restart", _restart("containerd")),
        Fault("scheduler away", _kill("scheduler", seconds=12)),
        Fault("controller manager away", _kill("controllers", seconds=12)),
        Fault("node partitioned", partition_node),
        Fault("node partitioned until given up", partition_node_for_long, slow=True),
        Fault("node without power", lose_node, slow=True),
    )
}
"""With the Kubernetes setup alone: only there is a cluster to break."""
