"""Network check of ``codehub doctor`` on Kubernetes: is the NetworkPolicy of workspaces enforced?

Only trying it tells: the API server takes a NetworkPolicy whether or not the network plug-in knows what that is. Two
pods are created for a moment:

- the *workspace*, made like one and with its labels, listens, and tries what no workspace may reach;
- the *neighbour*, without them, tries the same, and the workspace.

What the neighbour reaches and the workspace does not, a policy keeps from it. The neighbour must not reach the
workspace: it is not the proxy.

Both pods are removed at the end. They have a deadline, after which nothing of them runs; the neighbour is owned by the
workspace; and what a doctor that was killed left is removed by the next one, or by a running CodeHub.
"""

import asyncio
import ipaddress
import json
import socket
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from codehub.domain.errors import EffectError
from codehub.kit.tasks import finish
from codehub.runtimes.base import FencingToken, ResourceLimits
from codehub.runtimes.kubernetes.catalogue import Image
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, NotFound
from codehub.runtimes.kubernetes.inventory import Pod
from codehub.runtimes.kubernetes.manifests import Order, workspace_pod
from codehub.runtimes.kubernetes.names import CONTAINER, IMAGE, INSTALLATION, PORT, TOKEN, Document, Names
from codehub.runtimes.kubernetes.pods import Pods, no_check
from codehub.runtimes.kubernetes.probes import DEADLINE_SECONDS, PROBE, remove_old_probes
from codehub.runtimes.kubernetes.reasons import ending_of, scheduler_words, start_failure
from codehub.runtimes.kubernetes.settings import KubernetesSettings
from codehub.server.doctor import network_probe
from codehub.server.doctor.findings import Finding
from codehub.server.doctor.network_verdict import API_SERVER, INGRESS, METADATA, Probes, not_tried, verdict
from codehub.server.settings.tree import Settings

WAIT_SECONDS = 90.0
"""For the image to be pulled, two pods to run, and all addresses to be tried."""
_PATIENCE_SECONDS = 10.0
_LISTEN_PORT = 8080
_POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
_RESOURCES = {
    "limits": {"cpu": "500m", "memory": "128Mi"},
    "requests": {"cpu": "10m", "memory": "32Mi"},
}

Targets = Mapping[str, tuple[str, int]]


class _CouldNotTry(Exception):
    """Why there is no result."""


async def examine_network(api: ApiClient, settings: Settings, wanted: KubernetesSettings) -> Finding:
    """Try from inside whether workspaces are kept apart. Bounded in time; removes what it creates."""
    pods = Pods(api, namespace=wanted.namespace, gone_seconds=20.0)
    probe = _Probe(api, pods, wanted, image=settings.kubernetes.job_image)
    policies = await _policies(api, wanted.namespace)
    try:
        await remove_old_probes(api, namespace=wanted.namespace)
        async with asyncio.timeout(WAIT_SECONDS):
            seen = await probe.run(await find_targets(settings, api.access.server))
    except TimeoutError:
        return not_tried(f"the probe's pods were not done within {WAIT_SECONDS:g} seconds: {probe.waits_for}")
    except (_CouldNotTry, EffectError) as error:
        return not_tried(str(error))
    finally:
        await finish(probe.remove())
    return verdict(seen, has_policy=policies)


async def find_targets(settings: Settings, server: str) -> dict[str, tuple[str, int]]:
    """What no workspace may reach, by addresses that pods could have. Names are resolved here, as CodeHub does."""
    found: dict[str, tuple[str, int]] = {
        API_SERVER: ("$KUBERNETES_SERVICE_HOST", 443),
        METADATA: ("169.254.169.254", 80),
    }
    database, redis = settings.database.url, settings.redis.url
    for name, url, default_port in (
        ("the API server's own address", server, 443),
        ("the database", database.get_secret_value() if database else "", 5432),
        ("Redis", redis.get_secret_value() if redis else "", 6379),
    ):
        address = await _resolve(url, default_port)
        if address is not None:
            found[name] = address
    return found


async def _resolve(url: str, default_port: int) -> tuple[str, int] | None:
    """Where a URL leads; None: nowhere a pod could go."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or default_port
        if host is None:
            return None
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return None
    address = str(found[0][4][0])
    return None if ipaddress.ip_address(address).is_loopback else (address, port)


async def _policies(api: ApiClient, namespace: str) -> bool | None:
    """Whether there is a NetworkPolicy in the namespace; None: CodeHub may not know."""
    try:
        return bool(await api.list(_POLICIES.format(namespace)))
    except EffectError:
        return None


class _Probe:
    def __init__(self, api: ApiClient, pods: Pods, wanted: KubernetesSettings, *, image: str) -> None:
        self._api = api
        self._pods = pods
        self._wanted = wanted
        self._image = image
        self._made: list[Pod] = []
        self._name = f"codehub-doctor-{uuid4().hex[:8]}"
        self.waits_for = "no pod was created"

    async def run(self, targets: Targets) -> Probes:
        workspace = await self._until_running(await self._create(self._pod("", targets, expected=False)))
        inward = {INGRESS: (str(workspace.status.get("podIP")), _LISTEN_PORT)}
        from_workspace = await self._result(workspace)
        neighbour = self._pod("-neighbour", targets, expected=True, others=inward)
        made = await self._until_running(await self._create(as_neighbour(neighbour, owner=workspace)))
        return Probes(workspace=from_workspace, neighbour=await self._result(made))

    async def remove(self) -> None:
        for pod in reversed(self._made):
            try:
                await self._pods.remove(pod, check=no_check)
            except EffectError:
                continue  # its deadline ends it; the next doctor removes it

    def _pod(
        self, suffix: str, targets: Targets, *, expected: bool, others: Targets | None = None
    ) -> Document:
        tried = {name: (*address, expected) for name, address in targets.items()}
        tried |= {name: (*address, False) for name, address in (others or {}).items()}
        listen = None if expected else _LISTEN_PORT
        order = {"targets": tried, "listen": listen, "patience_seconds": _PATIENCE_SECONDS}
        return probe_pod(self._name + suffix, json.dumps(order), image=self._image, settings=self._wanted)

    async def _create(self, manifest: Document) -> Pod:
        pod = await self._pods.create(manifest)
        if pod is None:
            raise _CouldNotTry("the name of the probe's pod is taken")
        self._made.append(pod)
        return pod

    async def _until_running(self, pod: Pod) -> Pod:
        async with aclosing(self._pods.follow(pod, seconds=WAIT_SECONDS)) as states:
            async for current in states:
                if current is None:
                    raise _CouldNotTry("the probe's pod was removed by somebody else")
                self.waits_for = _waits_for(current)
                failure = start_failure(current)
                if failure is not None:
                    raise _CouldNotTry(failure.message)
                if current.has_ended or (current.is_running and current.status.get("podIP")):
                    return current
        raise TimeoutError

    async def _result(self, pod: Pod) -> Mapping[str, bool]:
        """What the program in the pod reports."""
        pieces = self._api.output(self._pods.path(pod.name, "log"), follow=True, container=CONTAINER)
        output = b""
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    output += piece
                    for line in output.splitlines(keepends=True):
                        if line.startswith(network_probe.MARK.encode()) and line.endswith(b"\n"):
                            found: dict[str, bool] = json.loads(
                                line.removeprefix(network_probe.MARK.encode())
                            )
                            return found
        except (NotFound, CallRefused) as error:
            raise _CouldNotTry(f"the probe's output cannot be read: {error}") from error
        said = output.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        current = await self._pods.find(pod.name)
        ending = ending_of(current) if current is not None else None
        how = f" ({ending.words})" if ending is not None else ""
        raise _CouldNotTry(f"the probe's program ended early{how}: {said[0]}")


def probe_pod(name: str, order: str, *, image: str, settings: KubernetesSettings) -> Document:
    """A pod like a workspace's, with its labels and its place, that runs the probe and has no home."""
    workspace_id = uuid4()
    program = Path(network_probe.__file__).read_text()
    probe = Image(image, command=("python3", "-c", program), args=(order,), port=_LISTEN_PORT, home="/tmp")
    start = Order(workspace_id, FencingToken(0, 0), PROBE, {}, ResourceLimits())
    pod = workspace_pod(start, image=probe, names=Names(PROBE), settings=settings)
    pod["metadata"]["name"] = name
    spec = pod["spec"]
    del spec["schedulingGates"]
    spec.pop("initContainers", None)  # they prepare what a person works with
    spec["activeDeadlineSeconds"] = DEADLINE_SECONDS
    spec["terminationGracePeriodSeconds"] = 1
    spec["containers"][0]["resources"] = _RESOURCES
    for volume in spec["volumes"]:
        if volume["name"] == "home":
            del volume["persistentVolumeClaim"]
            volume["emptyDir"] = {}
    return pod


def as_neighbour(pod: Document, *, owner: Pod) -> Document:
    """Take what makes a pod a workspace away; it goes with ``owner``."""
    metadata = pod["metadata"]
    metadata["labels"] = {INSTALLATION: PROBE}
    for each in (TOKEN, PORT, IMAGE):
        metadata["annotations"].pop(each, None)
    metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid}]
    return pod


def _waits_for(pod: Pod) -> str:
    waiting = (pod.container.get("state") or {}).get("waiting") or {}
    said = scheduler_words(pod) or waiting.get("message") or waiting.get("reason")
    return f"{pod.name} is {pod.phase}" + (f" ({said})" if said else "")
