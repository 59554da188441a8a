"""Settings of the Kubernetes runtime, as the wiring passes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from codehub.runtimes.base import ResourceLimits
from codehub.runtimes.kubernetes.catalogue import HomeKind, Image

JOB_COMMAND = ("python3", "-m", "codehub.archives.job")
GIB = 1024**3


@dataclass(frozen=True)
class Placement:
    """Where pods may run, and what they carry; for workspaces and storage jobs alike."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pull_secrets: Sequence[str] = ()
    runtime_class: str | None = None
    priority_class: str | None = None


@dataclass(frozen=True)
class JobSettings:
    """Settings of storage jobs, which run CodeHub's own image with one home.

    ``archive_claim``: a claim that several pods may write to, mounted at the directory of a ``file://`` store.
    ``service_account``: whose identity reaches the object store; ``env`` then holds no credentials.
    ``silent_seconds``: after so long without output its pod is looked at, and its log opened again. ``away_seconds``:
    how long the API server may be away before the job counts as failed.
    """

    image: str
    archive_url: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: Sequence[str] = JOB_COMMAND
    archive_claim: str | None = None
    service_account: str | None = None
    silent_seconds: float = 30.0
    away_seconds: float = 60.0
    limits: ResourceLimits = field(default_factory=lambda: ResourceLimits(cpus=2, memory_bytes=GIB))
    requests: ResourceLimits = field(
        default_factory=lambda: ResourceLimits(cpus=0.1, memory_bytes=256 * 1024**2)
    )


@dataclass(frozen=True)
class HomeSettings:
    """How homes are kept, for all images or for one."""

    storage_class: str | None
    bytes: int
    access_mode: str
    kind: HomeKind


@dataclass(frozen=True)
class KubernetesSettings:
    """Settings of workspaces' pods.

    ``images``: what may be started, by name; the first is the default.
    ``user``: the uid, gid and fsGroup of every pod. One for the whole installation, because a storage job restores a
    home before anybody knows which image will run on it.
    ``inside_image``: an image that has ``/inside``, the program CodeHub runs in workspaces; None: they go without.
    ``home_kind`` and the three above it: of homes whose image says nothing else (``homes_of``).
    ``pod_patch``: merged into the pod of every workspace (``patches``).
    ``schedule_seconds``: how long a pod may wait for a node. ``start_seconds``: how long it may take on that node.
    """

    images: Mapping[str, Image]
    namespace: str = "codehub"
    user: int = 1000
    storage_class: str | None = None
    home_bytes: int = 10 * GIB
    access_mode: str = "ReadWriteOncePod"
    home_kind: HomeKind = HomeKind.NETWORK
    default_limits: ResourceLimits = field(default_factory=ResourceLimits)
    requests: ResourceLimits = field(default_factory=ResourceLimits)
    placement: Placement = field(default_factory=Placement)
    inside_image: str | None = None
    pod_patch: Mapping[str, Any] = field(default_factory=dict)
    base_path: str = "/w/{id}/"
    stop_grace_seconds: int = 10
    settle_seconds: float = 1.0
    schedule_seconds: float = 600.0
    start_seconds: float = 240.0
    gone_seconds: float = 60.0

    def homes_of(self, image_ref: str) -> HomeSettings:
        """How homes of this image are kept; one that is not in the catalogue: as the settings say."""
        image = self.images.get(image_ref)
        if image is None:
            return HomeSettings(self.storage_class, self.home_bytes, self.access_mode, self.home_kind)
        return HomeSettings(
            storage_class=image.storage_class or self.storage_class,
            bytes=image.home_size or self.home_bytes,
            access_mode=image.access_mode or self.access_mode,
            kind=image.home_kind or self.home_kind,
        )

    def limits_of(self, wanted: ResourceLimits) -> ResourceLimits:
        """What was asked for, and the default for the rest. A pod has no limit of processes."""
        default = self.default_limits
        return ResourceLimits(
            cpus=wanted.cpus if wanted.cpus is not None else default.cpus,
            memory_bytes=wanted.memory_bytes if wanted.memory_bytes is not None else default.memory_bytes,
        )
