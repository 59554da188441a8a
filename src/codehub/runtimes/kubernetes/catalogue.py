"""The catalogue of images: what a workspace may run, and how each image is run. Pure.

The API server does not show an image's labels, so what Docker reads from them is said here:

    {"jupyterlab": {"image": "registry/jupyterlab:4", "port": 8080, "home": "/home/workspace", "base_path": true}}

A workspace names an image by its key. A wrong entry stops the start of CodeHub with a sentence that names it.

What an entry says of its homes goes before the settings of the same name: ``storage_class``, ``home_size``,
``access_mode``, ``home_kind``. Its ``pod_patch`` is merged into the pod after that of the settings.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from codehub.runtimes.kubernetes.quantities import find_bytes

DEFAULT_PORT = 8080
DEFAULT_HOME = "/home/workspace"
PULL_POLICIES = ("IfNotPresent", "Always", "Never")
ACCESS_MODES = ("ReadWriteOncePod", "ReadWriteOnce", "ReadWriteMany")
LEAST_HOME_BYTES = 1024**2


class HomeKind(StrEnum):
    """What becomes of homes when a node is lost."""

    NETWORK = "network"  # nothing: another node can mount it
    NODE_LOCAL = "node-local"  # it is lost with its node, up to its last archive


@dataclass(frozen=True)
class Image:
    """One entry of the catalogue.

    ``base_path``: whether it serves below ``CODEHUB_BASE_PATH``; else the proxy removes the prefix.
    ``storage_class``, ``home_size``, ``access_mode``, ``home_kind``: of homes it runs on; None: as the settings say.
    ``pod_patch``: merged into pods of this image (``patches``), for GPUs, nodes of its own, more volumes.
    """

    image: str
    port: int = DEFAULT_PORT
    home: str = DEFAULT_HOME
    base_path: bool = False
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    pull_policy: str = "IfNotPresent"
    pull_secrets: Sequence[str] = ()
    storage_class: str | None = None
    home_size: int | None = None
    access_mode: str | None = None
    home_kind: HomeKind | None = None
    pod_patch: Mapping[str, Any] = field(default_factory=dict, hash=False)


DEFAULT_IMAGES: Mapping[str, Image] = {
    "code-server": Image("codehub/code-server"),
    "jupyterlab": Image("codehub/jupyterlab", base_path=True),
}


def parse_catalogue(text: str) -> dict[str, Image]:
    """Parse the catalogue from JSON. Raises ``ValueError`` with what is wrong where."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos})") from error
    if not isinstance(document, dict) or not document:
        raise ValueError('a JSON object with at least one image is needed, as {"name": {"image": "…"}}')
    return {name: _image(name, entry) for name, entry in document.items()}


def _image(name: str, entry: Any) -> Image:
    if isinstance(entry, str):
        entry = {"image": entry}
    if not name.strip() or not isinstance(entry, dict):
        raise ValueError(f'image {name!r} needs a reference, or an object with one, as {{"image": "…"}}')
    known = {each.name for each in fields(Image)}
    if unknown := sorted(set(entry) - known):
        raise ValueError(f"image {name!r} has unknown fields: {', '.join(unknown)}")
    for field_name, is_right, wanted in _RULES:
        if field_name in entry and not is_right(entry[field_name]):
            raise ValueError(f"image {name!r}: {field_name} must be {wanted}")
    if not entry.get("image"):
        raise ValueError(f"image {name!r} names no image")
    lists = {key: tuple(entry[key]) for key in ("command", "args", "pull_secrets") if key in entry}
    parsed = {key: parse(entry[key]) for key, parse in _PARSED.items() if key in entry}
    return Image(**{**entry, **lists, **parsed})


_PARSED: Mapping[str, Callable[[Any], Any]] = {"home_size": find_bytes, "home_kind": HomeKind}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_RULES = (
    ("image", _is_text, "the reference of an image"),
    (
        "port",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536,
        "a port",
    ),
    ("home", lambda value: _is_text(value) and value.startswith("/") and value != "/", "an absolute path"),
    ("base_path", lambda value: isinstance(value, bool), "true or false"),
    ("command", _is_list_of_texts, "a list of strings"),
    ("args", _is_list_of_texts, "a list of strings"),
    ("pull_secrets", _is_list_of_texts, "a list of names"),
    ("pull_policy", lambda value: value in PULL_POLICIES, f"one of {', '.join(PULL_POLICIES)}"),
    ("storage_class", _is_text, "the name of a storage class"),
    ("home_size", lambda value: (find_bytes(value) or 0) >= LEAST_HOME_BYTES, 'an amount such as "20Gi"'),
    ("access_mode", lambda value: value in ACCESS_MODES, f"one of {', '.join(ACCESS_MODES)}"),
    ("pod_patch", lambda value: isinstance(value, dict), "an object, merged into the pod"),
    ("home_kind", lambda value: value in set(HomeKind), f"one of {', '.join(HomeKind)}"),
)
