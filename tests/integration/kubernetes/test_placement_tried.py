"""Every way to say where pods run, and with what, is tried against the API server when CodeHub starts."""

from dataclasses import replace
from typing import Any

import pytest

from codehub.runtimes.kubernetes.settings import Placement
from tests.support.kubernetes_environment import KubernetesEnvironment

SELECTOR = {"matchLabels": {"codehub.role": "workspace"}}


def terms(operator: str) -> dict[str, Any]:
    expression = {"key": "disk", "operator": operator, "values": ["ssd"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {
        "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    }


def spread(skew: int) -> dict[str, Any]:
    rule = {
        "maxSkew": skew,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": SELECTOR,
    }
    return {"spec": {"topologySpreadConstraints": [rule]}}


def gpus(amount: str) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": amount}}
    return {"spec": {"containers": [{"name": "workspace", "resources": resources}]}}


def cache(mount: str) -> dict[str, Any]:
    volume = {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}}
    container = {"name": "workspace", "volumeMounts": [{"name": mount, "mountPath": "/cache"}]}
    return {"spec": {"volumes": [volume], "containers": [container]}}


TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "codehub", "effect": "NoSchedule"}

GOOD: dict[str, dict[str, Any]] = {
    "node selector": {"placement": Placement(node_selector={"pool": "workspaces"})},
    "toleration": {"placement": Placement(tolerations=(TOLERATION,))},
    "labels": {"placement": Placement(labels={"team": "a"}, annotations={"example.org/note": "b"})},
    "pull secrets": {"placement": Placement(pull_secrets=("registry",))},
    "affinity": {"pod_patch": terms("In")},
    "topology spread": {"pod_patch": spread(1)},
    "gpus": {"pod_patch": gpus("1")},
    "extra volume": {"pod_patch": cache("cache")},
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "node selector": ({"placement": Placement(node_selector={"no/such/key": "x"})}, "nodeSelector"),
    "toleration": ({"placement": Placement(tolerations=({**TOLERATION, "effect": "Never"},))}, "effect"),
    "labels": ({"placement": Placement(labels={"team": "not a value"})}, "labels"),
    "affinity": ({"pod_patch": terms("Near")}, "operator"),
    "topology spread": ({"pod_patch": spread(0)}, "maxSkew"),
    "gpus": ({"pod_patch": gpus("half")}, "quantities"),
    "extra volume": ({"pod_patch": cache("missing")}, "volumeMounts"),
}


@pytest.mark.parametrize("what", GOOD)
async def test_a_right_setting_is_taken(environment: KubernetesEnvironment, what: str) -> None:
    await (await environment.open(**GOOD[what])).check_manifests()


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_setting_stops_the_start_and_is_named(
    environment: KubernetesEnvironment, what: str
) -> None:
    changes, named = WRONG[what]
    with pytest.raises(ValueError, match=named):
        await (await environment.open(**changes)).check_manifests()


@pytest.mark.parametrize(("policy", "taken"), [("Always", True), ("Sometimes", False)])
async def test_a_pull_policy(environment: KubernetesEnvironment, policy: str, taken: bool) -> None:
    images = {"tiny": replace(environment.settings.images["tiny"], pull_policy=policy, pull_secrets=("own",))}
    runtime = await environment.open(images=images)
    if taken:
        await runtime.check_manifests()
        return
    with pytest.raises(ValueError, match="imagePullPolicy"):
        await runtime.check_manifests()


async def test_classes_the_cluster_has(environment: KubernetesEnvironment) -> None:
    """Runtime and priority classes are the cluster's: one that is missing may come, and only refuses pods so far."""
    name = f"test-{environment.namespace[-8:]}"
    runtime_class = {"metadata": {"name": name}, "handler": "runc"}
    priority_class = {"metadata": {"name": name}, "value": 10}
    environment.api.create("/apis/node.k8s.io/v1/runtimeclasses", runtime_class)
    environment.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", priority_class)
    try:
        placement = Placement(runtime_class=name, priority_class=name)
        await (await environment.open(placement=placement)).check_manifests()
    finally:
        environment.api.delete(f"/apis/node.k8s.io/v1/runtimeclasses/{name}")
        environment.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
