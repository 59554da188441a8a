"""``codehub doctor`` about a real cluster: what it lets CodeHub do, and what to do about the rest."""

import json
from pathlib import Path
from typing import Any

from tests.support.instance import codehub
from tests.support.kubernetes_environment import KubernetesEnvironment
from tests.support.kubernetes_product import product_variables

CHECKS = ("runtime", "permissions", "workspaces", "storage jobs", "homes", "storage class", "quota")


async def examine(
    environment: KubernetesEnvironment, data_dir: Path, **settings: str
) -> dict[str, dict[str, Any]]:
    """The findings, by what they are about."""
    process_variables = {
        **product_variables(environment),
        **settings,
        "CODEHUB_DATA_DIR": str(data_dir),
        "CODEHUB_BIND": "127.0.0.1:0",
    }
    outcome = await codehub("doctor", "--json", **process_variables)
    return {one["what"]: one for one in json.loads(outcome.output)["findings"]}


async def test_a_cluster_that_has_everything(environment: KubernetesEnvironment, tmp_path: Path) -> None:
    found = await examine(environment, tmp_path / "data")
    for what in CHECKS:
        assert found[what]["verdict"] == "ok", found[what]
    assert f"namespace {environment.namespace}" in found["runtime"]["detail"]
    assert "Kubernetes v1." in found["runtime"]["detail"]


async def test_a_permission_that_is_missing_is_named(
    environment: KubernetesEnvironment, tmp_path: Path
) -> None:
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{environment.namespace}/roles/codehub"
    rules = environment.api.get(role)["rules"]
    kept = [rule for rule in rules if rule["resources"] != ["secrets"]]
    environment.api.patch(role, {"rules": kept})
    found = await examine(environment, tmp_path / "data")
    assert found["permissions"]["verdict"] == "bad"
    assert found["permissions"]["detail"] == "not allowed: create secrets"


async def test_what_would_be_refused_is_told(environment: KubernetesEnvironment, tmp_path: Path) -> None:
    found = await examine(
        environment,
        tmp_path / "data",
        CODEHUB_KUBERNETES_POD_PATCH='{"spec": {"hostPID": true, "shareProcessNamespace": null}}',
        CODEHUB_KUBERNETES_ACCESS_MODE="ReadWriteOncePod",
    )
    assert found["workspaces"]["verdict"] == "bad"
    assert "PodSecurity" in found["workspaces"]["detail"]
    assert found["storage jobs"]["verdict"] == "ok"


async def test_a_cluster_that_is_away(environment: KubernetesEnvironment, tmp_path: Path) -> None:
    await environment.break_engine()
    found = await examine(environment, tmp_path / "data")
    assert found["runtime"]["verdict"] == "bad"
    assert "KUBECONFIG" in found["runtime"]["advice"]
    assert "permissions" not in found, "nothing can be said about them"


async def test_no_kubeconfig(environment: KubernetesEnvironment, tmp_path: Path) -> None:
    found = await examine(environment, tmp_path / "data", KUBECONFIG=str(tmp_path / "none"))
    assert found["runtime"]["verdict"] == "bad"
    assert "cannot be read" in found["runtime"]["detail"]
