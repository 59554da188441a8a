"""Embedded Redis: the machine's server or a wheel's, on a Unix socket.

It stores nothing on disk. Redis holds hints and activity, whose loss delays CodeHub and never makes it wrong, so
it may start empty every time.
"""

import contextlib
import os
import signal
from pathlib import Path

import redis.asyncio as redis

from codehub.server.data_dir import DataDir
from codehub.server.processes.embedded import passwords, redis_access
from codehub.server.processes.embedded.processes import end_orphans, processes_in
from codehub.server.processes.embedded.redis_program import choose_program
from codehub.server.processes.supervisor import ChildSpec

STOP_SIGNALS = ((signal.SIGTERM, 5.0),)
RULES = "users.acl"
PROGRAMS = ("redis-", "valkey-")
"""Prefixes of the server's executable. Debian's redis-server is a link to redis-check-rdb."""


def socket_path(data_dir: DataDir) -> Path:
    return data_dir.sockets() / "redis.sock"


def url(data_dir: DataDir) -> str:
    """Address of Redis.

    Without a password where none is stored: a server of an earlier version may still be running.
    """
    password = passwords.find(data_dir, passwords.REDIS)
    who = f"{redis_access.USER}:{password}@" if password else ""
    return f"unix://{who}{socket_path(data_dir)}"


def is_running(data_dir: DataDir) -> bool:
    return bool(processes_in(data_dir.redis, program=PROGRAMS))


def child(data_dir: DataDir) -> ChildSpec:
    """Describe how to run the server. The caller has locked the data directory."""
    path = socket_path(data_dir)

    async def remove_leftovers() -> None:
        await end_orphans(data_dir.redis, program=PROGRAMS, leader=None, signals=STOP_SIGNALS)
        path.unlink(missing_ok=True)
        password = passwords.find(data_dir, passwords.REDIS) or passwords.make()
        passwords.keep(data_dir, passwords.REDIS, password)
        _write_rules(data_dir.redis / RULES, redis_access.rules(password))

    async def is_ready() -> bool:
        client = redis.Redis.from_url(url(data_dir), socket_timeout=2.0)
        try:
            return bool(await client.ping())
        except (redis.RedisError, OSError):
            return False
        finally:
            with contextlib.suppress(redis.RedisError, OSError):
                await client.aclose()

    options = {
        "port": "0",  # no TCP: the socket's directory decides who may connect
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(data_dir.redis),
        "aclfile": str(data_dir.redis / RULES),
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "maxclients": "4096",
        # Background work once a second instead of ten times: keys still expire to the millisecond.
        "hz": "1",
    }
    return ChildSpec(
        name="embedded Redis",
        argv=(
            choose_program().path,
            *(part for key, value in options.items() for part in (f"--{key}", value)),
        ),
        before_start=remove_leftovers,
        is_ready=is_ready,
        stop_signals=STOP_SIGNALS,
        ready_within=20.0,
        log_file=data_dir.logs / "redis.log",
    )


def _write_rules(path: Path, rules: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(rules)
