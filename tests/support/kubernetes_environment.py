"""The Kubernetes runtime on a real cluster, each test in a namespace of its own.

CodeHub speaks as a service account with the permissions the documentation names and no others, and the namespace
enforces PodSecurity ``restricted``. The API server is reached over a link that a test can cut.
"""

import asyncio
import fcntl
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
import yaml  # type: ignore[import-untyped]

from codehub.runtimes.inside import find_inside
from codehub.runtimes.kubernetes.access import find_access
from codehub.runtimes.kubernetes.catalogue import Image
from codehub.runtimes.kubernetes.client import ApiClient
from codehub.runtimes.kubernetes.exits import OnExit
from codehub.runtimes.kubernetes.names import Names
from codehub.runtimes.kubernetes.runtime import KubernetesRuntime
from codehub.runtimes.kubernetes.settings import JobSettings, KubernetesSettings, Placement
from codehub.server.doctor.kubernetes import PERMISSIONS
from tests.cluster.api import Json, KubernetesApi
from tests.cluster.fixtures import KubernetesUnderTest
from tests.cluster.images import image_archive
from tests.cluster.waiting import until as until_true
from tests.support.broken_link import Break, BrokenLink
from tests.support.docker_images import (
    APP,
    BARE_COMMAND,
    JOB_SCRIPT,
    PYTHON,
    SCRIPTS,
    bare_tar,
    busybox_tar,
    image,
    inside_tar,
    job_tar,
)
from tests.support.object_stores import S3Server, moto_server
from tests.support.waiting import until

PORT, HOME = 8081, "/home/person"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
USER = 1000
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
MakeApi = Callable[[Any], ApiClient]


@pytest.fixture(scope="module")
def store(kubernetes: KubernetesUnderTest) -> Iterator[S3Server]:
    """Object storage on this machine that pods reach."""
    ensure_images(kubernetes)
    with moto_server(address_for_pods(kubernetes.api)) as server:
        yield server


@pytest.fixture
async def environment(
    kubernetes: KubernetesUnderTest, namespace: str, store: S3Server
) -> "AsyncIterator[KubernetesEnvironment]":
    environment = KubernetesEnvironment(kubernetes, namespace, store)
    await environment.prepare()
    yield environment
    await environment.close()


def ensure_images(kubernetes: KubernetesUnderTest) -> None:
    """Bring the images of tests to every node, once for each cluster.

    ``CODEHUB_TEST_IMAGE_LOAD``: the command that does so on a cluster of somebody else, ``kind load image-archive``
    for example.
    """
    uid = kubernetes.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    names = [*SCRIPTS, "bare", "job", *(["inside"] if find_inside() is not None else [])]
    versions = "-".join(image(name)[-12:] for name in ("tiny", *names[len(SCRIPTS) + 1 :]))
    done = Path(tempfile.gettempdir()) / f"codehub-test-cluster-{uid}-{versions}"
    with open(done.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                archive = Path(folder) / f"{name}.tar"
                archive.write_bytes(_archive(name))
                load_image(kubernetes, archive)
        done.touch()


def load_image(kubernetes: KubernetesUnderTest, archive: Path) -> None:
    if kubernetes.cluster is not None:
        kubernetes.cluster.import_image(archive)
        return
    command = os.environ.get("CODEHUB_TEST_IMAGE_LOAD")
    if not command:
        pytest.skip("needs a way to load images: CODEHUB_TEST_IMAGE_LOAD='kind load image-archive'")
    subprocess.run([*command.split(), str(archive)], check=True)


def _archive(name: str) -> bytes:
    reference = f"docker.io/{image(name)}"
    if name == "job":
        env = [f"PYTHONPATH={APP}", "PATH=/usr/bin:/bin"]
        return image_archive(reference, job_tar(), {"Env": env, "Entrypoint": [PYTHON]})
    if name == "inside":
        return image_archive(reference, inside_tar(), {"Entrypoint": ["/inside"]})
    if name == "bare":
        return image_archive(reference, bare_tar(), {"Entrypoint": BARE_COMMAND})
    config = {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/sh", "-c", SCRIPTS[name]]}
    return image_archive(reference, busybox_tar(), config)


def address_for_pods(api: KubernetesApi) -> str:
    """Our address as the nodes see it."""
    (node, *_) = api.get("/api/v1/nodes")["items"]
    (host,) = [each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((host, 9))  # sends nothing
        return str(asking.getsockname()[0])


class KubernetesEnvironment:
    """What ``tests/contract/runtime_suite`` asks of an engine, and a little more."""

    def __init__(self, kubernetes: KubernetesUnderTest, namespace: str, store: S3Server) -> None:
        self.api = kubernetes.api
        self.namespace = namespace
        self.store = store
        self.bucket = store.new_bucket()
        self.image, self.failing_image = "tiny", "wrong"
        self.settings = KubernetesSettings(
            images={name: Image(image(name), port=PORT, home=HOME, pull_policy="Never") for name in SCRIPTS},
            namespace=namespace,
            storage_class="network",
            home_bytes=1024**2,
            stop_grace_seconds=2,
            settle_seconds=30,  # all these images listen or end, however busy the machine is
        )
        variables = store.variables(self.bucket)
        self.jobs = JobSettings(
            image=image("job"),
            archive_url=variables.pop("ARCHIVE_URL"),
            env=variables,
            command=(PYTHON, f"{APP}/{JOB_SCRIPT.name}"),
        )
        self._administrator = kubernetes.kubeconfig
        self._kubectl = kubernetes.kubectl
        self._mark = uuid4().hex[:8]
        self.node_label = f"codehub-test/{self._mark}"
        self._labelled = False
        self._cluster_roles: list[str] = []
        self._folder = tempfile.TemporaryDirectory(prefix="codehub-kube-")
        self._opened: list[KubernetesRuntime] = []
        server = urlsplit(find_access(str(self._administrator)).server)
        assert server.hostname is not None
        self._server = (server.hostname, server.port or 443)
        self._link = BrokenLink(self._server)
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"

    async def prepare(self) -> None:
        self.api.patch(f"/api/v1/namespaces/{self.namespace}", {"metadata": {"labels": RESTRICTED}})
        await self._link.open()
        given = yaml.safe_load(self._administrator.read_text())["clusters"][0]["cluster"]
        cluster = {
            "server": f"https://127.0.0.1:{self._link.port}",
            "tls-server-name": self._server[0],
            "certificate-authority-data": given["certificate-authority-data"],
        }
        self.kubeconfig.write_text(json.dumps(make_identity(self.api, self.namespace, cluster)))

    def path(self, kind: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}{name and '/'}{name}"

    def installation_id(self, installation: str = "one") -> str:
        return f"{installation}-{self._mark}"

    def names(self, installation: str = "one") -> Names:
        return Names(self.installation_id(installation))

    async def open(
        self,
        installation: str = "one",
        *,
        on_exit: OnExit | None = None,
        create: bool = True,
        make_api: MakeApi = ApiClient,
        jobs: JobSettings | None = None,
        **changes: Any,
    ) -> KubernetesRuntime:
        runtime = KubernetesRuntime(
            self.installation_id(installation),
            replace(self.settings, **changes),
            api=make_api(find_access(str(self.kubeconfig))),
            jobs=jobs or self.jobs,
            on_exit=on_exit,
        )
        await runtime.prepare(create=create)
        self._opened.append(runtime)
        return runtime

    async def open_without_nodes(self) -> KubernetesRuntime:
        return await self.open(placement=Placement(node_selector={self.node_label: "yes"}))

    async def add_node(self) -> None:
        self._label_node("yes")

    def _label_node(self, value: str | None) -> None:
        (node, *_) = self.api.get("/api/v1/nodes")["items"]
        labels = {"metadata": {"labels": {self.node_label: value}}}
        self.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", labels)
        self._labelled = value is not None

    def allow_reading(self, group: str, resource: str) -> None:
        """Let CodeHub list something of the whole cluster, until the test ends."""
        name = f"codehub-test-{self._mark}-{resource}"
        role = {"metadata": {"name": name}}
        rules = [{"apiGroups": [group], "resources": [resource], "verbs": ["list"]}]
        self.api.create(f"{_RBAC}/clusterroles", {**role, "rules": rules})
        who = {"kind": "ServiceAccount", "name": "codehub", "namespace": self.namespace}
        of = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        self.api.create(f"{_RBAC}/clusterrolebindings", {**role, "subjects": [who], "roleRef": of})
        self._cluster_roles.append(name)
        _wait_until_allowed(self.api, self.namespace, {"group": group, "resource": resource, "verb": "list"})

    async def kill_container(self, workspace_id: UUID) -> None:
        await self._kill(f"ws-{workspace_id}", "sh", "-c", "kill -9 -1")

    async def kill_job(self, workspace_id: UUID) -> None:
        await self._kill(f"ws-{workspace_id}-job", PYTHON, "-c", "import os; os.kill(-1, 9)")

    async def _kill(self, pod: str, *command: str) -> None:
        await self.execute(pod, *command)

        async def is_dead() -> bool:
            found = self.api.find(self.path("pods", pod))
            return found is None or found["status"]["phase"] in ("Failed", "Succeeded")

        await until(is_dead, what=f"the end of {pod}")

    async def execute(self, pod: str, *command: str) -> None:
        """Run a command in a pod, as whoever may do anything. It may kill itself."""
        arguments = [*self._kubectl, "--namespace", self.namespace]
        process = await asyncio.create_subprocess_exec(
            *arguments, "exec", pod, "--", *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await process.wait()

    async def let_stranger_in(self, workspace_id: UUID) -> None:
        name = f"stranger-{workspace_id}"
        await self._run(name, workspace_id, "sleep 1000", {}, until_phase="Running")

    async def send_stranger_away(self, workspace_id: UUID) -> None:
        await self._remove(f"stranger-{workspace_id}")

    async def write(self, workspace_id: UUID, name: str, content: str) -> None:
        env = {"NAME": name, "CONTENT": content}
        await self._hand(workspace_id, 'printf %s "$CONTENT" > "/home/person/$NAME"', env)

    async def read(self, workspace_id: UUID, name: str) -> str | None:
        script = 'if [ -e "/home/person/$NAME" ]; then printf "=%s" "$(cat "/home/person/$NAME")"; fi'
        said = await self._hand(workspace_id, script, {"NAME": name})
        return said[1:] if said else None

    async def let_jobs(self, workspace_id: UUID, behaviour: str) -> None:
        key = f"homes/{workspace_id}.behaviour"
        await asyncio.to_thread(
            self.store.client().put_object, Bucket=self.bucket, Key=key, Body=behaviour.encode()
        )

    async def break_engine(self) -> None:
        self._link.break_(Break.CUT)

    async def freeze_engine(self) -> None:
        self._link.break_(Break.STALL)

    async def mend_engine(self) -> None:
        self._link.heal()

    async def close(self) -> None:
        for runtime in self._opened:
            await runtime.close()
        if self._labelled:
            self._label_node(None)
        for name in self._cluster_roles:
            self.api.delete(f"{_RBAC}/clusterrolebindings/{name}")
            self.api.delete(f"{_RBAC}/clusterroles/{name}")
        await self._link.close()
        self._folder.cleanup()

    async def _hand(self, workspace_id: UUID, script: str, env: dict[str, str]) -> str:
        """Run a script on a home that nobody uses; what it says."""
        name = f"hand-{uuid4().hex[:8]}"
        await self._run(name, workspace_id, script, env, until_phase="Succeeded")
        said = str(self.api.get(self.path("pods", name) + "/log").get("text", ""))
        await self._remove(name)
        return said

    async def _run(
        self, name: str, workspace_id: UUID, script: str, env: dict[str, str], *, until_phase: str
    ) -> None:
        self.api.create(self.path("pods"), _pod_on_home(name, f"ws-{workspace_id}-home", script, env))

        async def is_there() -> bool:
            return bool(self.api.get(self.path("pods", name))["status"]["phase"] == until_phase)

        await until(is_there, what=f"{name} is {until_phase}", seconds=60)

    async def _remove(self, name: str) -> None:
        self.api.delete(self.path("pods", name))

        async def is_gone() -> bool:
            return self.api.find(self.path("pods", name)) is None

        await until(is_gone, what=f"{name} is gone", seconds=60)


def make_identity(api: KubernetesApi, namespace: str, cluster: Json) -> Json:
    """A kubeconfig for a service account with the permissions CodeHub asks for. ``cluster``: how to reach it."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.create(path, {"metadata": {"name": "codehub"}})
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": [""], "resources": [kind], "verbs": [verb]} for kind, verb in PERMISSIONS]
    api.create(f"{rbac}/roles", {"metadata": {"name": "codehub"}, "rules": rules})
    who = {"kind": "ServiceAccount", "name": "codehub", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "codehub"}
    binding = {"metadata": {"name": "codehub"}, "subjects": [who], "roleRef": role}
    api.create(f"{rbac}/rolebindings", binding)
    (resource, verb) = PERMISSIONS[0]
    _wait_until_allowed(api, namespace, {"namespace": namespace, "resource": resource, "verb": verb})
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 6 * 3600},
    }
    token = api.create(f"{path}/codehub/token", asked)["status"]["token"]
    return {
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }


def _wait_until_allowed(api: KubernetesApi, namespace: str, attributes: Json) -> None:
    """The API server's authorizer watches roles and bindings: it knows a new one a moment after it was created."""
    user = f"system:serviceaccount:{namespace}:codehub"
    asked = {"spec": {"user": user, "resourceAttributes": attributes}}

    def is_allowed() -> bool | None:
        said = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)
        return bool(said["status"]["allowed"]) or None

    until_true(is_allowed, f"{user} may {attributes['verb']} {attributes['resource']}")


def _pod_on_home(name: str, claim: str, script: str, env: dict[str, str]) -> Json:
    container = {
        "name": "main",
        "image": image("tiny"),
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", script],
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "volumeMounts": [{"name": "home", "mountPath": HOME, "subPath": "home"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER}
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": {**security, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }
