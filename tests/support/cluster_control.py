"""The control plane of tests with workspaces on a real cluster: pods, claims and storage jobs instead of processes.

What tests look at is the same: homes as directories, on the disks of a cluster of ours; archives as files, in the
directory of the S3 server that keeps them; servers as processes, which a pod's are, too.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from codehub.archives.store import ArchiveStore
from codehub.runtimes.kubernetes.access import find_access
from codehub.runtimes.kubernetes.catalogue import Image
from codehub.runtimes.kubernetes.client import ApiClient
from codehub.runtimes.kubernetes.runtime import KubernetesRuntime
from codehub.runtimes.kubernetes.settings import JobSettings, KubernetesSettings
from tests.support.control import ControlEnvironment, environ_of_processes
from tests.support.docker_images import image
from tests.support.kubernetes_environment import HOME, PORT, KubernetesEnvironment
from tests.support.object_stores import S3Server

IMAGES = {"tiny": "tiny", "failing": "wrong"}
"""As ``tests.support.control`` calls them."""

BUCKET = "archives"
_HOME_BYTES = 256 * 1024**2
SomeRuntime = TypeVar("SomeRuntime", bound=KubernetesRuntime)


def build_runtime(kind: type[SomeRuntime], config: dict[str, Any]) -> SomeRuntime:
    """A runtime as ``ClusterControlEnvironment.runtime_config`` describes it, in any process."""
    settings = KubernetesSettings(
        images={
            name: Image(image(made), port=PORT, home=HOME, pull_policy="Never")
            for name, made in IMAGES.items()
        },
        namespace=config["namespace"],
        storage_class="network",
        home_bytes=_HOME_BYTES,
        stop_grace_seconds=2,
        settle_seconds=30,  # these images listen or end, however busy the machine is
    )
    return kind(
        config["installation_id"],
        settings,
        api=ApiClient(find_access(config["kubeconfig"])),
        jobs=JobSettings(image=image("job"), archive_url=config["archive_url"], env=config["credentials"]),
    )


@dataclass(kw_only=True)
class ClusterControlEnvironment(ControlEnvironment):
    kubernetes: KubernetesEnvironment
    store: S3Server
    volumes: Path
    """Where the cluster's disks are: directories on this machine."""

    patience: float = 150.0

    @property
    def archive_url(self) -> str:
        return f"s3://{BUCKET}"

    def archives(self) -> ArchiveStore:
        return ArchiveStore.from_url(self.archive_url, options=self._store_options)

    @property
    def runtime_config(self) -> dict[str, Any]:
        credentials = self.store.variables(BUCKET)
        del credentials["ARCHIVE_URL"]
        return {
            "installation_id": self.kubernetes.installation_id(),
            "namespace": self.kubernetes.namespace,
            "kubeconfig": str(self.kubernetes.kubeconfig),
            "archive_url": self.archive_url,
            "store_options": self._store_options,
            "credentials": credentials,
        }

    @property
    def _store_options(self) -> dict[str, Any]:
        return self.store.options(allow_http=True)

    async def make_runtime(self) -> KubernetesRuntime:
        runtime = build_runtime(KubernetesRuntime, self.runtime_config)
        await runtime.prepare()
        return runtime

    def home(self, workspace_id: UUID) -> Path:
        name = f"ws-{workspace_id}-home"
        claim = self.kubernetes.api.find(self.kubernetes.path("persistentvolumeclaims", name))
        uid = "none" if claim is None else claim["metadata"]["uid"]
        return self.volumes / f"pvc-{uid}" / "home"

    def servers_of(self, workspace_id: UUID) -> int:
        """How many pods run a server of this workspace: each has a namespace of processes of its own."""
        ours = f"CODEHUB_WORKSPACE_ID={workspace_id}".encode()
        found = set()
        for folder, environ in environ_of_processes():
            # A storage job knows the workspace, too, and has no path of its own at the proxy.
            if ours in environ and any(each.startswith(b"CODEHUB_BASE_PATH=") for each in environ):
                found.add(_process_namespace(folder))
        return len(found - {None})

    async def kill_workspace(self, workspace_id: UUID) -> None:
        await self.kubernetes.kill_container(workspace_id)

    async def end_workspaces(self) -> None:
        """Nothing: they go with their namespace."""


def _process_namespace(folder: Path) -> Path | None:
    try:
        return (folder / "ns" / "pid").readlink()
    except OSError:
        return None
