"""The proxy in pods of its own, beside servers of somebody else's: who may do what, and a restart under people's eyes.

People come in by a port of a node, which spreads over the Service as an ingress controller does, and name hosts.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import httpx
import pytest
import websockets

from tests.chart.images import ensure_chart_images
from tests.chart.release import Release, common_values
from tests.chart.services import Services, services_for_pods
from tests.cluster.api import Json
from tests.cluster.fixtures import KubernetesUnderTest, fresh_namespace
from tests.cluster.waiting import until as wait_until
from tests.support.kubernetes_environment import RESTRICTED
from tests.support.people import Person

pytestmark = [pytest.mark.needs_docker, pytest.mark.needs_built_images, pytest.mark.timeout(1800)]

HOST = "codehub.test"
URL = f"http://{HOST}"
PASSWORD = "the first password"
ECHO = """
from aiohttp import web
async def answer(request):
    socket = web.WebSocketResponse()
    if not socket.can_prepare(request):
        return web.Response(text="here")
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(message.data)
    return socket
app = web.Application()
app.router.add_get("/{path:.*}", answer)
web.run_app(app, port=8080)
"""
CONTROL_PLANE, PROXY, JOB = "codehub", "codehub-proxy", "codehub-job"
READING = {("get", "pods"), ("get", "configmaps")}
ASKED = {
    (verb, kind)
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete")
    for kind in ("pods", "pods/exec", "pods/log", "secrets", "configmaps", "persistentvolumeclaims", "roles")
}


@pytest.fixture(scope="module")
def services(kubernetes: KubernetesUnderTest) -> Iterator[Services]:
    with services_for_pods(kubernetes.api) as services:
        yield services


@pytest.fixture(scope="module")
def release(
    kubernetes: KubernetesUnderTest, services: Services, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    image = ensure_chart_images(kubernetes)
    with fresh_namespace(kubernetes.api) as namespace:
        kubernetes.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": RESTRICTED}})
        release = Release(kubernetes, namespace, tmp_path_factory.mktemp("release"))
        variables = services.store.variables(services.store.new_bucket())
        keys = {key: variables.pop(key) for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        release.create_secret("database", url=services.database_url)
        release.create_secret("cache", url=services.redis_url)
        release.create_secret("archive", **keys)
        release.create_secret("first", password=PASSWORD)
        release.install(values(kubernetes, services, image, archive=variables))
        yield release


def values(
    kubernetes: KubernetesUnderTest, services: Services, image: str, *, archive: dict[str, str]
) -> dict[str, Any]:
    values = common_values(kubernetes, image)
    workspaces = values["workspaces"]
    workspaces["images"]["echo"] = {
        "image": image,
        "pull_policy": "Never",
        "command": ["python3", "-c", ECHO],
        "port": 8080,
        "home": "/home/workspace",
        "base_path": False,
    }
    workspaces["limits"]["memory"] = "256m"
    its_address = {"ipBlock": {"cidr": f"{services.address}/32"}}
    workspaces["networkPolicy"]["jobsExtraEgress"] = [{"to": [its_address]}]
    return values | {
        "topology": "separate",
        "baseUrl": URL,
        "baseDomain": HOST,
        "database": {"existingSecret": "database"},
        "redis": {"existingSecret": "cache"},
        "archive": {"url": archive.pop("ARCHIVE_URL"), "existingSecret": "archive", "env": archive},
        "admin": {"existingSecret": "first"},
        "trustedProxies": ["10.0.0.0/8"],
        "proxy": {"autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 3}},
        "service": {"type": "NodePort"},
        "ingress": {"enabled": True},
    }


@asynccontextmanager
async def signed_in(release: Release) -> AsyncIterator[tuple[Person, str]]:
    """The first user behind the Service, and a token of theirs."""
    address = address_of(release)
    headers = {"Host": HOST, "Origin": URL, "Connection": "close"}  # each request may go to another pod
    async with httpx.AsyncClient(
        base_url=f"http://{address}", headers=headers, timeout=30, trust_env=False
    ) as client:
        person = Person(URL, client)
        await person.api("POST", "/auth/login", json={"username": "admin", "password": PASSWORD})
        token = await person.api("POST", "/tokens", json={"name": "test"})
        yield person, str(token["token"])


def address_of(release: Release) -> str:
    api = release.kubernetes.api
    addresses = [
        each["address"]
        for node in api.get("/api/v1/nodes")["items"]
        for each in node["status"].get("addresses", ())
        if each["type"] == "InternalIP"
    ]
    (port,) = api.get(release.path("services", "codehub"))["spec"]["ports"]
    return f"{addresses[0]}:{port['nodePort']}"


async def ask_workspace(release: Release, workspace_id: str, token: str) -> httpx.Response:
    """At the host of its own, which the wildcard of an ingress covers."""
    headers = {"Host": f"{workspace_id}.{HOST}", "Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.get(f"http://{address_of(release)}/", headers=headers)


def open_socket(release: Release, workspace_id: str, token: str) -> "websockets.connect":
    host, _, port = address_of(release).partition(":")
    return websockets.connect(
        f"ws://{workspace_id}.{HOST}/",
        host=host,
        port=int(port),
        origin=websockets.Origin(f"http://{workspace_id}.{HOST}"),
        additional_headers={"Authorization": f"Bearer {token}"},
        proxy=None,
        ping_interval=None,
    )


def test_rights_are_the_least(release: Release) -> None:
    assert allowed(release, PROXY) == READING
    assert allowed(release, JOB) == set()
    mine = allowed(release, CONTROL_PLANE)
    assert {verb for verb, kind in mine if kind == "secrets"} == {"create"}
    assert not {kind for _, kind in mine} & {"roles"}
    for account in (CONTROL_PLANE, PROXY, JOB):
        assert allowed(release, account, namespace="kube-system") == set()


def allowed(release: Release, account: str, *, namespace: str | None = None) -> set[tuple[str, str]]:
    """Of what was asked, what the API server lets this service account do."""
    return {each for each in ASKED if _is_allowed(release, account, *each, namespace or release.namespace)}


def _is_allowed(release: Release, account: str, verb: str, kind: str, namespace: str) -> bool:
    resource, _, subresource = kind.partition("/")
    group = "rbac.authorization.k8s.io" if resource == "roles" else ""
    review = {
        "user": f"system:serviceaccount:{release.namespace}:{account}",
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "resourceAttributes": {
            "namespace": namespace,
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
        },
    }
    asked = release.kubernetes.api.create(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": review}
    )
    return bool(asked["status"]["allowed"])


def test_proxies_know_no_key_and_no_first_password(release: Release) -> None:
    wait_until(lambda: len(release.pods("proxy")) == 2, "the autoscaler asks for two pods")
    for pod in release.pods("proxy"):
        (container,) = pod["spec"]["containers"]
        assert "archive" not in str(container.get("envFrom")) + str(container["env"])
        assert "CODEHUB_ADMIN_PASSWORD" not in {each["name"] for each in container["env"]}
    assert "error" not in release.doctor().lower()


def test_disruption_budgets_leave_one(release: Release) -> None:
    group = "/apis/policy/v1"

    def one_may_go(name: str) -> Json | None:
        status = release.kubernetes.api.get(release.path("poddisruptionbudgets", name, group))["status"]
        return dict(status) if status.get("disruptionsAllowed") == 1 else None

    wait_until(lambda: len(release.pods("proxy")) == 2, "the autoscaler asks for two pods")
    for name in ("codehub-control-plane", "codehub-proxy"):
        seen = wait_until(partial(one_may_go, name), f"one pod of {name} may go")
        assert (seen["expectedPods"], seen["desiredHealthy"]) == (2, 1)


async def test_archive_and_wake_with_servers_outside(release: Release) -> None:
    async with signed_in(release) as (person, token):
        workspace_id = await person.create("kept", image="tiny")
        await person.until_status(workspace_id, "running", seconds=120)
        release.write(workspace_id, "notes.txt", "mine")
        await person.intent(workspace_id, "archive")
        await person.until_status(workspace_id, "archived", seconds=180)
        await person.intent(workspace_id, "start")
        await person.until_status(workspace_id, "running", seconds=180)
        assert release.read(workspace_id, "notes.txt") == "mine"
        assert (await ask_workspace(release, workspace_id, token)).status_code == 200
        await person.intent(workspace_id, "stop")


async def test_a_rolling_restart_refuses_nobody(release: Release) -> None:
    """Requests go on; open WebSockets end at once, not by a time-out, and can be opened again; a leader is there."""
    refused: list[str] = []
    async with signed_in(release) as (person, token):
        workspace_id = await person.create("open", image="echo")
        await person.until_status(workspace_id, "running", seconds=120)
        asking = asyncio.create_task(keep_asking(release, workspace_id, token, refused))
        sockets = [await open_socket(release, workspace_id, token) for _ in range(8)]
        ends = [asyncio.create_task(until_closed(each)) for each in sockets]
        before = pods_of(release)
        await asyncio.to_thread(restart, release)
        async with asyncio.timeout(120):
            await asyncio.gather(*ends)
        assert not before & pods_of(release)
        asking.cancel()
        async with open_socket(release, workspace_id, token) as again:
            await again.send("still here")
            assert await again.recv() == "still here"
        await person.intent(workspace_id, "stop")  # a leader acts
        await person.until_status(workspace_id, "standby")
    assert refused == []


def pods_of(release: Release) -> set[str]:
    found = [*release.pods("proxy"), *release.pods("control-plane")]
    return {each["metadata"]["name"] for each in found}


def restart(release: Release) -> None:
    for name in (PROXY, CONTROL_PLANE):
        release.kubectl("rollout", "restart", f"deployment/{name}")
    for name in (PROXY, CONTROL_PLANE):
        release.kubectl("rollout", "status", f"deployment/{name}", "--timeout=240s")


async def keep_asking(release: Release, workspace_id: str, token: str, refused: list[str]) -> None:
    """Over a new connection each time, until cancelled."""
    while True:
        try:
            answer = await ask_workspace(release, workspace_id, token)
        except httpx.HTTPError as error:
            refused.append(repr(error))
        else:
            if not answer.is_success:
                refused.append(f"{answer.status_code} {answer.text[:200]}")
        await asyncio.sleep(0.05)


async def until_closed(socket: "websockets.ClientConnection") -> None:
    """Use it until the other side ends it."""
    with suppress(websockets.ConnectionClosed):
        while True:
            await socket.send("x")
            await socket.recv()
            await asyncio.sleep(0.5)
