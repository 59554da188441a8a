"""Connect to an archive URL, with timeouts and retries for every request.

S3 takes the usual AWS variables (``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``AWS_REGION``,
``AWS_VIRTUAL_HOSTED_STYLE_REQUEST``…), read by obstore itself; ``options`` override them and may also hold
client options (``timeout``, ``connect_timeout``, ``allow_http``…). Plain HTTP is allowed by default only to
this machine, elsewhere with ``AWS_ALLOW_HTTP=true``.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from obstore.store import LocalStore, MemoryStore, ObjectStore, from_url

from codehub.archives.faults import LIBRARY_ERRORS, describe
from codehub.domain.errors import EffectError, FailureCode

_SCHEMES = ("file", "memory", "s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss")
_CLIENT_OPTIONS = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "proxy_url",
    "read_timeout",
    "root_certificate",
    "timeout",
}
_ENDPOINT_OPTIONS = ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


@dataclass(frozen=True)
class ConnectedStore:
    """A store and its name for people. ``directory`` is set for ``file://``."""

    backend: ObjectStore
    endpoint: str
    directory: Path | None = None


def open_backend(url: str, *, options: Mapping[str, Any], create: bool) -> ConnectedStore:
    """Open the object store of ``url``. Raises ``EffectError``; contacts nothing."""
    parts = urlsplit(url)
    endpoint = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"  # without user:password@ and ?query
    if parts.scheme not in _SCHEMES:
        raise _refused(endpoint, "use file:///directory, s3://bucket/prefix, gs://… or az://…")
    if parts.scheme == "memory":
        return ConnectedStore(backend=MemoryStore(), endpoint=endpoint)
    if parts.scheme == "file":
        return _open_directory(Path(unquote(parts.path)), endpoint=endpoint, create=create)
    config = {name: value for name, value in options.items() if name not in _CLIENT_OPTIONS}
    try:
        # obstore types its options per provider, which only the URL determines at run time.
        connect: Any = from_url
        backend = connect(
            url, config=config, client_options=_client_options(options), retry_config=_retry_config()
        )
    except LIBRARY_ERRORS as error:
        raise _refused(endpoint, describe(error)) from error
    return ConnectedStore(backend=backend, endpoint=endpoint)


def check_directory(directory: Path) -> None:
    """Raise OSError unless ``directory`` can be listed and written to."""
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not there or not a directory")
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(f"{directory} may not be read and written by this user")


def is_empty(directory: Path) -> bool:
    with os.scandir(directory) as entries:
        return next(entries, None) is None


def _open_directory(directory: Path, *, endpoint: str, create: bool) -> ConnectedStore:
    if not directory.is_absolute() or directory == Path("/"):
        raise _refused(endpoint, "a directory is written as file:///absolute/path")
    try:
        if create:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ConnectedStore(backend=LocalStore(directory), endpoint=endpoint, directory=directory)
    except LIBRARY_ERRORS as error:
        raise EffectError(
            FailureCode.S3_ACCESS_ERROR,
            f"The archive directory {directory} cannot be opened: {describe(error)}",
            endpoint=endpoint,
        ) from error


def _client_options(options: Mapping[str, Any]) -> dict[str, Any]:
    client = {name: value for name, value in options.items() if name in _CLIENT_OPTIONS}
    # The read timeout bounds silence. A whole download may take long where a server does not support ranges.
    client.setdefault("connect_timeout", timedelta(seconds=5))
    client.setdefault("read_timeout", timedelta(seconds=60))
    client.setdefault("timeout", timedelta(days=1))
    # obstore ignores this variable once client options are passed, so it is read here.
    allowed = os.environ.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true", "yes", "on"}
    if allowed or _is_loopback(_endpoint_of(options)):
        client.setdefault("allow_http", True)
    return client


def _retry_config() -> dict[str, Any]:
    """Retry a failed request at once and briefly; the job itself retries outages."""
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2}
    return {"max_retries": 3, "retry_timeout": timedelta(seconds=30), "backoff": backoff}


def _endpoint_of(options: Mapping[str, Any]) -> str:
    named = [str(options[name]) for name in _ENDPOINT_OPTIONS if name in options]
    return (named + [os.environ[name] for name in _ENDPOINT_VARIABLES if name in os.environ] + [""])[0]


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _refused(endpoint: str, why: str) -> EffectError:
    return EffectError(
        FailureCode.S3_ACCESS_ERROR, f"The archive URL {endpoint} cannot be used: {why}", endpoint=endpoint
    )
