"""The short round on a cluster: its parts break under load. ``make chaos RUNTIME=kubernetes`` is the long one."""

from functools import partial

import pytest

from tests.chaos.faults import KILL
from tests.chaos.kubernetes_faults import KUBERNETES_FAULTS
from tests.chaos.kubernetes_setup import kubernetes_setup
from tests.chaos.round import play
from tests.cluster.cluster import Cluster

# With the other tests that break a cluster, on the same one: two rounds at once would only wait for each other.
pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("cluster-faults")]

SEED = 41
SHORT = (
    KILL.name,
    "API server kill -9",
    "kubelet kill -9",
    "etcd kill -9",
    "API server frozen",
    "containerd restart",
    "scheduler away",
    "node partitioned",
    KILL.name,
)


async def test_a_cluster_that_breaks_under_load_loses_nothing_and_doubles_nothing(
    breakable_kubernetes: Cluster,
) -> None:
    setup = partial(kubernetes_setup, cluster=breakable_kubernetes)
    report = await play([KUBERNETES_FAULTS[name] for name in SHORT], seed=SEED, tenants=4, setup=setup)
    print(f"\n{report.text}")
    assert report.problems == []
    taken = [strike.take_over for strike in report.strikes if strike.name == KILL.name]
    assert all(taken), "after each kill the other replica leads"
