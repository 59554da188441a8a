"""Find volumes of homes whose claim is gone: kept by the reclaim policy ``Retain``, and paid for by somebody.

Volumes belong to the whole cluster, so listing them is a right CodeHub may not have, and does not need otherwise. They
carry no label of ours: what claimed them was called like a home, in our namespace.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from codehub.domain.errors import EffectError
from codehub.runtimes.base import LeftVolume
from codehub.runtimes.kubernetes.client import ApiClient
from codehub.runtimes.kubernetes.quantities import find_bytes

_PATH = "/api/v1/persistentvolumes"
_HOME = re.compile(r"ws-[0-9a-f-]{36}-home")


async def list_left_volumes(api: ApiClient, *, namespace: str) -> list[LeftVolume] | None:
    """Those of this namespace, by name; None: CodeHub may not list volumes, or the API server is away."""
    try:
        volumes = await api.list(_PATH)
    except EffectError:
        return None
    return sorted(_left(volumes, namespace), key=lambda each: each.name)


def _left(volumes: Iterable[Any], namespace: str) -> Iterable[LeftVolume]:
    for volume in volumes:
        spec, status = volume.get("spec") or {}, volume.get("status") or {}
        claim = spec.get("claimRef") or {}
        ours = claim.get("namespace") == namespace and _HOME.fullmatch(str(claim.get("name", "")))
        if ours and status.get("phase") in ("Released", "Failed"):
            yield LeftVolume(
                name=str(volume["metadata"]["name"]),
                bytes=find_bytes((spec.get("capacity") or {}).get("storage")),
                since=_time(status.get("lastPhaseTransitionTime")),
            )


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
