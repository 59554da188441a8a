"""``codehub doctor`` tries the network policy of workspaces: enforced, absent, not enforced, and not to be tried."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from codehub.runtimes.kubernetes.access import find_access
from codehub.runtimes.kubernetes.client import ApiClient
from codehub.runtimes.kubernetes.names import labels_of
from codehub.runtimes.kubernetes.probes import remove_old_probes
from codehub.server.doctor.kubernetes_network import probe_pod
from tests.cluster.api import Json, KubernetesApi
from tests.integration.kubernetes.test_doctor import examine
from tests.support.docker_images import image
from tests.support.kubernetes_environment import KubernetesEnvironment, address_for_pods
from tests.support.waiting import until

_POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"


def close_workspaces(api: KubernetesApi, namespace: str, *, let_out_to: str | None = None) -> None:
    """The policy of the documentation. Every address of the test cluster is a private one."""
    egress: list[Json] = [] if let_out_to is None else [{"to": [{"ipBlock": {"cidr": f"{let_out_to}/32"}}]}]
    spec = {
        "podSelector": {"matchLabels": {"codehub.role": "workspace"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "codehub"}}}]}],
        "egress": egress,
    }
    api.create(_POLICIES.format(namespace), {"metadata": {"name": "workspaces"}, "spec": spec})


@asynccontextmanager
async def server_for_pods(api: KubernetesApi) -> AsyncIterator[tuple[str, int]]:
    """A server of this machine that pods reach, and that ends every connection at once."""

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    host = address_for_pods(api)
    server = await asyncio.start_server(refuse, host, 0)
    async with server:
        yield host, server.sockets[0].getsockname()[1]


def probes_of(environment: KubernetesEnvironment) -> list[Json]:
    listed = environment.api.get(environment.path("pods"), labelSelector="codehub.installation=doctor")
    return [*listed["items"]]


async def test_a_policy_that_is_enforced(environment: KubernetesEnvironment, tmp_path: Path) -> None:
    close_workspaces(environment.api, environment.namespace)
    async with server_for_pods(environment.api) as (host, port):
        found = await examine(
            environment, tmp_path / "data", DATABASE_URL=f"postgresql://codehub@{host}:{port}/codehub"
        )
    policy = found["network policy"]
    assert policy["verdict"] == "ok", policy
    assert policy["detail"].startswith("enforced: a workspace does not reach the API server")
    assert "a workspace does not reach the database" in policy["detail"]
    assert "a pod that is not the proxy does not reach a workspace" in policy["detail"]
    assert probes_of(environment) == []


async def test_no_policy_and_one_with_a_hole(environment: KubernetesEnvironment, tmp_path: Path) -> None:
    async with server_for_pods(environment.api) as (host, port):
        redis = {"REDIS_URL": f"redis://{host}:{port}/0"}
        policy = (await examine(environment, tmp_path / "data", **redis))["network policy"]
        assert policy["verdict"] == "bad"
        assert "there is none for workspaces, or this cluster's network plug-in does not" in policy["detail"]
        assert "a workspace reaches the API server" in policy["detail"]
        assert "a workspace reaches Redis" in policy["detail"]
        assert "a pod that is not the proxy reaches a workspace" in policy["detail"]

        close_workspaces(environment.api, environment.namespace, let_out_to=host)
        policy = (await examine(environment, tmp_path / "data", **redis))["network policy"]
    assert policy["verdict"] == "bad"
    assert policy["detail"].startswith("enforced, but it lets through: ")
    assert "a workspace reaches Redis" in policy["detail"]
    assert "a pod that is not the proxy" not in policy["detail"]


async def test_what_cannot_be_tried_is_said(environment: KubernetesEnvironment, tmp_path: Path) -> None:
    missing = await examine(environment, tmp_path / "data", CODEHUB_KUBERNETES_JOB_IMAGE="Not/A:Name!")
    assert missing["network policy"]["verdict"] == "note"
    assert "could not be tried, because" in missing["network policy"]["detail"]
    assert "InvalidImageName" in missing["network policy"]["detail"]
    assert probes_of(environment) == []

    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    environment.api.create(environment.path("resourcequotas"), quota)

    async def is_counted() -> bool:
        return bool(environment.api.get(environment.path("resourcequotas", "none")).get("status"))

    await until(is_counted, what="the quota is counted")
    refused = await examine(environment, tmp_path / "data")
    assert "exceeded quota" in refused["network policy"]["detail"]


async def test_probes_of_a_doctor_that_was_killed_are_removed(environment: KubernetesEnvironment) -> None:
    """One that has ended is; one that may be in use has a deadline and stays."""
    order = json.dumps({"targets": {}, "listen": None, "patience_seconds": 0})
    waiting = json.dumps({"targets": {}, "listen": 8080, "patience_seconds": 0})
    for name, what in (("done", order), ("busy", waiting)):
        pod = probe_pod(name, what, image=image("job"), settings=environment.settings)
        assert labels_of(pod)["codehub.role"] == "workspace"
        environment.api.create(environment.path("pods"), pod)

    async def has_ended() -> bool:
        phases = {each["metadata"]["name"]: each["status"]["phase"] for each in probes_of(environment)}
        return phases == {"done": "Succeeded", "busy": "Running"}

    await until(has_ended, what="one probe ends", seconds=60)
    api = ApiClient(find_access(str(environment.kubeconfig)))
    try:
        await remove_old_probes(api, namespace=environment.namespace)
    finally:
        await api.close()

    async def is_removed() -> bool:
        return [each["metadata"]["name"] for each in probes_of(environment)] == ["busy"]

    await until(is_removed, what="the ended probe is removed", seconds=60)
    (busy,) = probes_of(environment)
    assert busy["spec"]["activeDeadlineSeconds"] > 0
