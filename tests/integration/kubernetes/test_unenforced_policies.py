"""A network plug-in that takes policies and does not enforce them: ``codehub doctor`` finds out."""

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.integration.kubernetes.test_doctor import examine
from tests.integration.kubernetes.test_doctor_network import close_workspaces, probes_of
from tests.integration.kubernetes.test_node_faults import environment, store
from tests.support.kubernetes_environment import KubernetesEnvironment

__all__ = ["environment", "store"]

pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("cluster-faults")]


async def test_a_policy_that_nobody_enforces(
    breakable_kubernetes: Cluster,
    environment: KubernetesEnvironment,
    tmp_path: Path,
) -> None:
    close_workspaces(environment.api, environment.namespace)
    rule = {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["list"]}
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{environment.namespace}/roles/codehub"
    environment.api.patch(role, {"rules": [*environment.api.get(role)["rules"], rule]})
    for node in breakable_kubernetes.nodes.values():
        breakable_kubernetes.kill(node.part("policies"))
    policy = (await examine(environment, tmp_path / "data"))["network policy"]
    assert policy["verdict"] == "bad"
    assert policy["detail"].startswith("not enforced by this cluster's network plug-in: ")
    assert "a workspace reaches the API server" in policy["detail"]
    assert "a pod that is not the proxy reaches a workspace" in policy["detail"]
    assert probes_of(environment) == []
