"""Checks of ``codehub doctor``: one finding for each dependency of CodeHub.

Checking changes nothing: no cluster is created, no schema migrated. An embedded server that is not running is
started for the check and stopped again, if it was ever set up. On Kubernetes two pods try the network and are removed.
"""

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import obstore
import redis.asyncio as redis_client
from obstore.store import from_url

from codehub.archives.tools import check_tools
from codehub.domain.errors import CodeHubError
from codehub.kit.logs import redact_text
from codehub.proxy.upstream import relay
from codehub.runtimes.inside import find_inside
from codehub.runtimes.local.images import default_images
from codehub.server import bind as binding
from codehub.server.data_dir import DataDir
from codehub.server.doctor.docker import examine_docker
from codehub.server.doctor.findings import Finding, Severity
from codehub.server.doctor.sandbox import examine_sandbox
from codehub.server.doctor.versions import examine_versions
from codehub.server.processes import embedded
from codehub.server.processes.embedded import postgres
from codehub.server.processes.embedded import redis as embedded_redis
from codehub.server.processes.embedded.postgres_programs import NEWEST_MAJOR
from codehub.server.settings.tree import RuntimeKind, Settings
from codehub.store import migrate as migrations
from codehub.store.db.connections import asyncpg_dsn
from codehub.store.errors import DRIVER_ERRORS, DatabaseNewer

OLDEST_POSTGRESQL = 15
OLDEST_REDIS = 6
CHECK_TIMEOUT_SECONDS = 20.0


async def examine(settings: Settings) -> list[Finding]:
    """Run every check. A failing check is a finding, never an exception."""
    findings = [_data_dir(settings)]
    findings += await _databases(settings)
    for what, check in (
        ("redis", _redis),
        ("versions", examine_versions),
        ("archive store", _archive_store),
        ("tar and zstd", _tools),
        ("port", _port),
    ):
        findings.append(await _guarded(what, check, settings))
    return [*findings, _websockets(), _ssh(settings), *await _runtime(settings)]


async def _guarded(what: str, check: Callable[[Settings], Awaitable[Finding]], settings: Settings) -> Finding:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
            return await check(settings)
    except TimeoutError:
        return Finding(
            what, Severity.BAD, f"no answer within {CHECK_TIMEOUT_SECONDS:g} seconds", "Check the network."
        )
    except Exception as error:  # noqa: BLE001 - the error is the finding
        message = redact_text(str(error)).strip().splitlines() or [type(error).__name__]
        return Finding(what, Severity.BAD, message[0], _ADVICE.get(what, ""))


_ADVICE = {
    "database": "Reinstall CodeHub where this user may execute it, or set DATABASE_URL.",
    "redis": "Check that Redis runs and that REDIS_URL is right, or unset REDIS_URL to use the embedded one.",
    "archive store": "Check ARCHIVE_URL and the credentials, or unset it to keep archives on this disk.",
}


def _data_dir(settings: Settings) -> Finding:
    path = settings.data_dir
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(
            "data directory",
            Severity.BAD,
            f"{path} cannot be written",
            "Make it writable for this user, or set CODEHUB_DATA_DIR to a directory that is.",
        )
    free = shutil.disk_usage(nearest).free // 2**20
    detail = f"{path}, {free:,} MiB free" + ("" if path.exists() else " (made at the first start)")
    if free < 1024:
        return Finding("data directory", Severity.NOTE, detail, "Make room: homes and archives live there.")
    return Finding("data directory", Severity.OK, detail)


async def _databases(settings: Settings) -> list[Finding]:
    data_dir = DataDir(settings.data_dir)
    if settings.database.url is None and not postgres.exists(data_dir):
        return [
            await _guarded("database", _database_to_be_made, settings),
            Finding("migrations", Severity.OK, f"to be migrated to {migrations.head()} at the first start"),
        ]
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_SECONDS), embedded.database(settings) as url:
            return [await _database(settings, url), await _migrations(url)]
    except (CodeHubError, OSError, TimeoutError, *DRIVER_ERRORS) as error:
        message = redact_text(str(error)).strip() or "no answer in time"
        advice = (
            "See logs/postgres.log in the data directory."
            if settings.database.url is None
            else "Check that PostgreSQL runs and that DATABASE_URL is right."
        )
        return [
            Finding("database", Severity.BAD, message, advice),
            Finding("migrations", Severity.BAD, "unknown while the database does not answer"),
        ]


async def _database_to_be_made(settings: Settings) -> Finding:
    await postgres.check_programs(DataDir(settings.data_dir))
    detail = f"embedded PostgreSQL {NEWEST_MAJOR}, made at the first start"
    return Finding("database", Severity.OK, detail)


async def _database(settings: Settings, url: str) -> Finding:
    connection = await asyncpg.connect(asyncpg_dsn(url), timeout=5.0)
    try:
        number = int(await connection.fetchval("SELECT current_setting('server_version_num')"))
        name = await connection.fetchval("SELECT current_setting('server_version')")
        read_only = await connection.fetchval("SELECT pg_is_in_recovery()")
        encoding = await connection.fetchval("SELECT current_setting('server_encoding')")
    finally:
        await connection.close()
    detail = f"PostgreSQL {name}, {'embedded' if settings.database.url is None else redact_text(url)}"
    if number // 10000 < OLDEST_POSTGRESQL:
        return Finding("database", Severity.BAD, detail, f"Use PostgreSQL {OLDEST_POSTGRESQL} or newer.")
    if read_only:
        return Finding("database", Severity.BAD, f"{detail}, a read-only standby", "Point at the primary.")
    if encoding != "UTF8":  # names, and output of failed programs, could be refused
        advice = "Make the database with the encoding UTF8: createdb --encoding=UTF8 --template=template0 …"
        return Finding("database", Severity.BAD, f"{detail}, its encoding is {encoding}", advice)
    return Finding("database", Severity.OK, detail)


async def _migrations(url: str) -> Finding:
    head = migrations.head()
    try:
        current = await migrations.current(url)
    except DatabaseNewer as error:
        return Finding("migrations", Severity.BAD, str(error), "Upgrade CodeHub.")
    if current == head:
        return Finding("migrations", Severity.OK, f"at {head}")
    if await migrations.is_usable(url):
        return Finding("migrations", Severity.OK, f"at {current}, newer than {head}, which it still serves")
    return Finding(
        "migrations",
        Severity.NOTE,
        f"at {current or 'nothing'}, {head} is needed",
        "Run `codehub migrate` (`up` and `serve` do so at the start).",
    )


async def _redis(settings: Settings) -> Finding:
    data_dir = DataDir(settings.data_dir)
    configured = settings.redis.url
    if configured is None and not embedded_redis.is_running(data_dir):
        return Finding("redis", Severity.OK, "embedded, not running (started by `up` and `serve`)")
    url = configured.get_secret_value() if configured else embedded_redis.url(data_dir)
    client = redis_client.Redis.from_url(url, socket_timeout=5.0, socket_connect_timeout=5.0)
    try:
        info = await client.info("server")
    finally:
        await client.aclose()
    version = str(info["redis_version"])
    name = f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {version}"
    detail = f"{name}, {redact_text(url) if configured else 'embedded'}"
    if int(version.split(".")[0]) < OLDEST_REDIS:
        return Finding("redis", Severity.BAD, detail, f"Use Redis {OLDEST_REDIS} or newer.")
    return Finding("redis", Severity.OK, detail)


async def _archive_store(settings: Settings) -> Finding:
    url = settings.archive_url
    shown = redact_text(url)
    if url.startswith("file://"):
        path = Path(url.removeprefix("file://"))
        nearest = next(one for one in (path, *path.parents) if one.exists())
        if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
            return Finding("archive store", Severity.OK, f"{shown}, writable")
        advice = "Make it writable for this user, or set ARCHIVE_URL."
        return Finding("archive store", Severity.BAD, f"{shown} cannot be written", advice)
    store = from_url(url)
    probe = f".codehub-doctor-{uuid4()}"
    await obstore.put_async(store, probe, b"written by codehub doctor")
    await obstore.delete_async(store, probe)
    return Finding("archive store", Severity.OK, f"{shown}, writable")


async def _runtime(settings: Settings) -> list[Finding]:
    match settings.runtime.kind:
        case RuntimeKind.DOCKER:
            return await examine_docker(settings)
        case RuntimeKind.KUBERNETES:
            # Imported here, so that other runtimes do not load it.
            from codehub.server.doctor.kubernetes import examine_kubernetes

            return await examine_kubernetes(settings)
        case RuntimeKind.LOCAL:
            sandbox = await _guarded("sandbox", examine_sandbox, settings)
            return [_local_runtime(settings), sandbox, *_images_on_ports(settings)]


def _local_runtime(settings: Settings) -> Finding:
    images = list(settings.runtime.local_images or default_images(installable=settings.runtime.ide_install))
    if not images:
        return Finding(
            "runtime",
            Severity.BAD,
            "local processes, but no IDE is installed",
            "Allow CODEHUB_IDE_INSTALL, install one (pip install 'codehub[jupyter]'), or name one in LOCAL_IMAGES.",
        )
    return Finding("runtime", Severity.OK, f"local processes: {', '.join(images)}")


def _images_on_ports(settings: Settings) -> list[Finding]:
    """Images that listen on a port, which every account of this machine can connect to."""
    images = settings.runtime.local_images or default_images(installable=settings.runtime.ide_install)
    open_ones = [name for name, command in images.items() if "{port}" in command]
    if not open_ones:
        return []
    detail = f"{', '.join(open_ones)}: every user of this machine can connect to it past the sign-in"
    advice = "In LOCAL_IMAGES use {socket} instead of {port}, if the program can listen on a Unix socket."
    return [Finding("images", Severity.NOTE, detail, advice)]


async def _tools(_: Settings) -> Finding:
    tools = await asyncio.to_thread(check_tools)
    missing = [tool for tool in tools if tool.required and not tool.ok]
    if missing:
        return Finding(
            "tar and zstd",
            Severity.BAD,
            ", ".join(f"{tool.name} is missing" for tool in missing),
            " ".join(tool.detail for tool in missing),
        )
    found = ", ".join(f"{tool.name}: {tool.detail}" for tool in tools if tool.ok)
    notes = " ".join(tool.detail for tool in tools if not tool.ok)
    detail = f"{found}, zstandard {metadata.version('zstandard')}"
    return Finding("tar and zstd", Severity.NOTE if notes else Severity.OK, detail, notes)


async def _port(settings: Settings) -> Finding:
    bind = settings.http.bind
    try:
        with contextlib.closing(binding.take(bind)) as taken:
            taken.listen(1)
    except (binding.PortTakenError, OSError) as error:
        if await _is_codehub(bind.url):
            return Finding("port", Severity.OK, f"{bind}, CodeHub answers there")
        if isinstance(error, binding.PortTakenError):
            return Finding("port", Severity.BAD, f"{bind} is taken", str(error))
        raise
    return Finding("port", Severity.OK, f"{bind} is free")


def _websockets() -> Finding:
    if relay.load() is not None:
        return Finding("websockets", Severity.OK, "carried by the relay")
    advice = "To make them faster: a C compiler (gcc, libc6-dev), then `make clean setup`."
    return Finding("websockets", Severity.NOTE, "carried by the event loop", advice)


def _ssh(settings: Settings) -> Finding:
    if find_inside() is None:
        advice = (
            "For SSH into workspaces: install Go 1.26 or newer, then `make inside`, or install a release."
        )
        return Finding("ssh", Severity.NOTE, "not available: the program for workspaces is not built", advice)
    if settings.runtime.kind is RuntimeKind.KUBERNETES and settings.kubernetes.inside_image is None:
        advice = "For SSH into workspaces: set CODEHUB_KUBERNETES_INSIDE_IMAGE to CodeHub's own image."
        return Finding("ssh", Severity.NOTE, "not available: no image brings the program to pods", advice)
    return Finding("ssh", Severity.OK, "the program for workspaces is built")


async def _is_codehub(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError, ValueError, socket.gaierror):
        async with httpx.AsyncClient(timeout=3.0, trust_env=False) as client:
            return bool((await client.get(f"{url}/health/live")).json().get("status") == "ok")
    return False
