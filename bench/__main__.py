"""``python -m bench [name …] [--rounds N]``: run benchmarks, print their tables, keep their figures."""

# ruff: noqa: T201 - a program that prints
import argparse
import asyncio
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from bench import (
    api,
    docker_ssh,
    docker_starts,
    editor,
    events,
    fast_paths,
    idle,
    kubernetes,
    proxying,
    reconcile_scale,
    saturation,
    ssh,
    starts,
    storage,
    store,
    takeover,
    versions,
)
from bench.runner import Report

Benchmark = Callable[..., Awaitable[Report]]

BENCHMARKS: dict[str, tuple[Benchmark, int]] = {  # name → what to run, and how many rounds
    "start": (starts.one_at_a_time, 15),
    "start-50": (starts.at_once, 3),
    "editor": (editor.editor, 7),
    "docker-start": (docker_starts.one_at_a_time, 10),
    "docker-start-20": (docker_starts.at_once, 3),
    "docker-ssh": (docker_ssh.docker_ssh, 20),
    "kubernetes": (kubernetes.one_at_a_time, 10),
    "kubernetes-50": (kubernetes.at_once, 5),
    "kubernetes-many": (kubernetes.many_running, 3),
    "api": (api.read, 5),
    "proxy-http": (proxying.small_requests, 5),
    "proxy-websocket": (proxying.websockets, 40),
    "proxy-download": (proxying.download, 5),
    "proxy-saturated": (saturation.saturated, 3),
    "fast-paths": (fast_paths.fast_paths, 20),
    "idle": (idle.idle, 3),
    "archive": (storage.archives, 3),
    "events": (events.after_faults, 7),
    "takeover": (takeover.kill_nine, 5),
    "reconcile-scale": (reconcile_scale.scale, 3),
    "store-transaction": (store.transactions, 15),
    "store-rows": (store.rows, 15),
    "store-pool": (store.pools, 15),
    "ssh-connect": (ssh.connecting, 15),
    "ssh-throughput": (ssh.throughput, 3),
    "ssh-echo": (ssh.echo, 5),
    "ssh-idle": (ssh.idle, 2),
    "versions": (versions.compare, 10),
}


async def main() -> None:
    task = asyncio.current_task()
    assert task is not None
    # Peers are ended by the blocks that started them: these must unwind, however the end is asked for.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, help="instead of each benchmark's own number")
    parser.add_argument("--keep", action="store_true", help="keep the data directories and logs")
    options = parser.parse_args()
    for name in options.names or [each for each in BENCHMARKS if each != "versions"]:
        benchmark, rounds = BENCHMARKS[name]
        directory = _directory()
        print(f"{name} …", flush=True)
        try:
            report = await benchmark(directory, rounds=options.rounds or rounds)
        finally:
            if options.keep:
                print(f"kept: {directory}")
            else:
                shutil.rmtree(directory, ignore_errors=True)
        print(report.table(), flush=True)
        report.save()


def _directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="codehub-bench-"))
    directory.chmod(0o755)  # PostgreSQL runs as another user when this runs as root
    return directory


if __name__ == "__main__":
    uvloop.run(main())  # the WebSocket load generator runs in here and must not be what is measured
