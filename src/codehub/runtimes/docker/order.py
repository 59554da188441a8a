"""Build a container's configuration for Docker from an order. Pure.

Nothing here may be loosened by an image or a caller: never privileged, no capabilities, no new privileges,
Docker's default seccomp profile, no ports on the host, no mount but the home and ``inside``, no restart by the
engine (the Reconciler decides). The user is the image's own, which should not be root.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from codehub.runtimes.base import FencingToken, ResourceLimits
from codehub.runtimes.docker import names as labels
from codehub.runtimes.docker.engine import Document
from codehub.runtimes.docker.inside_volume import inside_mount
from codehub.runtimes.docker.inventory import port_of
from codehub.runtimes.docker.names import Names, ObjectRole

DEFAULT_HOME = "/home/workspace"
LOGS = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}}
"""Bounded, so that output cannot fill the disk."""


@dataclass(frozen=True)
class Order:
    """One start of one workspace."""

    workspace_id: UUID
    token: FencingToken
    image_ref: str
    env: Mapping[str, str]
    limits: ResourceLimits
    base_path: str
    stop_grace_seconds: int
    inside: str | None = None  # the volume that has it; None: the workspace goes without


def container_config(order: Order, *, image: Document, names: Names, network: str) -> dict[str, Any]:
    wanted = image_labels(image)
    home = wanted.get(labels.HOME) or DEFAULT_HOME
    port = port_of(wanted)
    env = {
        **order.env,
        "HOME": home,
        "CODEHUB_WORKSPACE_ID": str(order.workspace_id),
        "CODEHUB_PORT": str(port),
        "CODEHUB_BASE_PATH": order.base_path,
    }
    mounts = [home_mount(names, order.workspace_id, target=home)]
    if order.inside is not None:
        mounts.append(inside_mount(order.inside))
    return {
        "Image": order.image_ref,
        "Hostname": f"ws-{str(order.workspace_id)[:8]}",
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": {
            **names.labels(order.workspace_id, ObjectRole.WORKSPACE, order.token),
            labels.PORT: str(port),
            labels.BASE_PATH: "true" if serves_base_path(wanted) else "false",
            labels.IMAGE: order.image_ref,
            labels.INSIDE: "true" if order.inside is not None else "false",
        },
        "StopTimeout": order.stop_grace_seconds,
        "HostConfig": {
            **hardening(order.limits),
            "NetworkMode": network,
            "Mounts": mounts,
            "LogConfig": LOGS,
        },
    }


def hardening(limits: ResourceLimits) -> dict[str, Any]:
    """Host configuration of workspaces and storage jobs alike."""
    config: dict[str, Any] = {
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "IpcMode": "private",
        "Init": True,  # reaps an IDE's orphaned processes and forwards SIGTERM
        "PublishAllPorts": False,
        "RestartPolicy": {"Name": "no"},
    }
    if limits.cpus is not None:
        config["NanoCpus"] = int(limits.cpus * 1_000_000_000)
    if limits.memory_bytes is not None:
        # Without this, as much again could be swapped to the disk that all share.
        config["Memory"] = config["MemorySwap"] = limits.memory_bytes
    if limits.pids is not None:
        config["PidsLimit"] = limits.pids
    return config


def home_mount(names: Names, workspace_id: UUID, *, target: str, read_only: bool = False) -> dict[str, Any]:
    return {
        "Type": "volume",
        "Source": names.home(workspace_id),
        "Target": target,
        "ReadOnly": read_only,
        # If the volume is missing Docker creates one, with this label only. It tells that volume from a home, so
        # that it can be removed without reading its content.
        "VolumeOptions": {"Labels": {labels.ACCIDENT: "true"}},
    }


def image_labels(image: Document) -> dict[str, str]:
    return dict((image.get("Config") or {}).get("Labels") or {})


def serves_base_path(found: Mapping[str, str]) -> bool:
    """Whether the image serves below ``CODEHUB_BASE_PATH``; else the proxy removes it."""
    return found.get(labels.BASE_PATH, "").lower() in {"true", "1", "yes"}
