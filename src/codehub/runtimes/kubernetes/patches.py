"""Merge an operator's patch into a pod. Pure.

Like Kubernetes' strategic merge: objects are merged, null removes a field, lists whose items have a name (containers,
volumes, environment) are merged by it, mounts by their path, and any other list is replaced.
"""

from collections.abc import Mapping
from typing import Any

_KEYS = {"volumeMounts": "mountPath", "volumeDevices": "devicePath", "ports": "containerPort"}
_BY_NAME = {"containers", "initContainers", "volumes", "env", "imagePullSecrets"}


def merged(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(document)
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        elif isinstance(value, Mapping):
            before = result.get(field)
            result[field] = merged(before if isinstance(before, Mapping) else {}, value)
        elif isinstance(value, list) and (key := _merge_key(field)) is not None:
            result[field] = _merged_list(result.get(field) or [], value, key=key)
        else:
            result[field] = value
    return result


def _merge_key(field: str) -> str | None:
    return "name" if field in _BY_NAME else _KEYS.get(field)


def _merged_list(before: list[Any], patch: list[Any], *, key: str) -> list[Any]:
    result = list(before)
    for item in patch:
        at = next((place for place, each in enumerate(result) if each.get(key) == item.get(key)), None)
        if at is None:
            result.append(item)
        else:
            result[at] = merged(result[at], item)
    return result
