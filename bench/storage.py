"""Archive and restore of a home, beside ``tar | zstd -T0`` to the same disk.

CodeHub's storage job is run as the runtime runs it; its figures contain the start of its interpreter, which
is also measured by itself. Its modules are compiled first, as an installation does. It does
more than tar and zstd: it hashes what it moves, and reads an archive back before it says done. It says
itself how long each phase took. ``pack`` ends when the object is durable: the read-back and the commit after
it are told apart. Both sides sync what they wrote, archive or home. Hashing runs beside the other work,
so its share cannot be cut out exactly: "without hashing" takes off the time that hashing the stored object
takes by itself. Both are judged. The homes were just written: both sides read them from memory. Restored
homes are thrown away only at the end: a file system without a journal is slow to make files for minutes
after many were removed, and the next restore would pay for that.
"""

import asyncio
import compileall
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import codehub
from bench.processes import end
from bench.runner import Bar, Measure, Report, take_turns

MIB = 1024 * 1024
TREES = {"1 GiB mixed": (1024, 2000), "100 000 small files": (200, 100_000)}


async def archives(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "archive",
        "Archive and restore of a home (seconds; lower is better)",
        bars=[
            Bar(f"{tree}, {metric} s", "codehub", "tar | zstd", at_most=1 / 0.8)
            for tree in TREES
            for metric in ("pack", "pack without hashing", "restore", "restore without hashing")
        ],
    )
    await asyncio.to_thread(compileall.compile_dir, Path(codehub.__file__).parent, quiet=2)
    for tree, (mib, files) in TREES.items():
        home = directory / "homes" / tree.replace(" ", "-")
        await asyncio.to_thread(_plant, home, total=mib * MIB, files=files)
        sides: dict[str, Measure] = {
            "codehub": lambda home=home, tree=tree: _codehub(directory, home, tree),  # type: ignore[misc]
            "tar | zstd": lambda home=home, tree=tree: _tar(directory, home, tree),  # type: ignore[misc]
        }
        await take_turns(report, sides, rounds=rounds)
        await asyncio.to_thread(_clear, home, directory / "restored")
    report.notes.append("restore: CodeHub checks the hash and every member's name before it unpacks.")
    return report


async def _codehub(directory: Path, home: Path, tree: str) -> Mapping[str, float]:
    store, volume = directory / "store", _new_volume(directory)
    store.mkdir(exist_ok=True)
    order: dict[str, Any] = {
        "workspace_id": str(uuid4()),
        "op_id": str(uuid4()),
        "archive_url": store.as_uri(),
    }
    starting = await asyncio.to_thread(_timed, f"'{sys.executable}' -c 'import codehub.archives.job'")
    packing = {**order, "kind": "archive", "volume_path": str(home)}
    cpu = _cpu_seconds()
    done, ended = await _job(packing)
    packing_cpu = _cpu_seconds() - cpu
    seconds = done["seconds"]
    packed = ended - seconds["read_back"] - seconds["commit"]
    hashing = await asyncio.to_thread(_hash, next(store.rglob("*.tar.zst")))
    (directory / "staging").mkdir(exist_ok=True)
    restoring = {
        **order,
        "kind": "restore",
        "op_id": str(uuid4()),
        "archive_key": done["archive_key"],
        "volume_path": str(volume),
        "staging_dir": str(directory / "staging" / uuid4().hex),
    }
    cpu = _cpu_seconds()
    done, restored = await _job(restoring)
    restoring_cpu = _cpu_seconds() - cpu
    await asyncio.to_thread(_clear, store, directory / "staging")
    return {
        f"{tree}, pack s": packed,
        f"{tree}, pack without hashing s": packed - hashing,
        f"{tree}, hashing alone s": hashing,
        f"{tree}, start of the interpreter s": starting,
        f"{tree}, read back s": seconds["read_back"],
        f"{tree}, CPU to pack and read back s": packing_cpu,
        f"{tree}, restore s": restored,
        f"{tree}, restore without hashing s": restored - hashing,
        f"{tree}, sync of the restored home s": done["seconds"]["make_durable"],
        f"{tree}, CPU to restore s": restoring_cpu,
    }


async def _job(order: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """Its last line, and the seconds it took."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "codehub.archives.job"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(order).encode())
    process.stdin.close()
    try:
        lines = [json.loads(line) async for line in process.stdout]
        took = time.perf_counter() - began
        code = await process.wait()
    finally:
        await end(process)
    if code != 0 or lines[-1]["event"] != "done":
        raise RuntimeError(f"storage job: {lines[-1:]}")
    return lines[-1], took


async def _tar(directory: Path, home: Path, tree: str) -> Mapping[str, float]:
    target, volume = directory / "peer.tar.zst", _new_volume(directory)
    cpu = _cpu_seconds()
    # Synced to disk, as CodeHub's are; at the same level.
    packed = await asyncio.to_thread(
        _timed, f"tar -C '{home}' -cf - . | zstd -q -3 -T0 -f -o '{target}' && sync '{target}'"
    )
    packing_cpu = _cpu_seconds() - cpu
    cpu = _cpu_seconds()
    restored = await asyncio.to_thread(_timed, f"zstd -q -dc '{target}' | tar -C '{volume}' -xpf -")
    synced = await asyncio.to_thread(_timed, f"sync --file-system '{volume}'")
    restoring_cpu = _cpu_seconds() - cpu
    await asyncio.to_thread(_clear, target)
    return {
        f"{tree}, pack s": packed,
        f"{tree}, pack without hashing s": packed,
        f"{tree}, restore s": restored + synced,
        f"{tree}, restore without hashing s": restored + synced,
        f"{tree}, sync of the restored home s": synced,
        f"{tree}, CPU to pack s": packing_cpu,
        f"{tree}, CPU to restore s": restoring_cpu,
    }


def _cpu_seconds() -> float:
    """Of every child so far that has ended: what a busy machine cannot stretch as it stretches time."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _hash(path: Path) -> float:
    began = time.perf_counter()
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")
    return time.perf_counter() - began


def _timed(script: str) -> float:
    began = time.perf_counter()
    subprocess.run(["/bin/bash", "-o", "pipefail", "-c", script], check=True)
    return time.perf_counter() - began


def _new_volume(directory: Path) -> Path:
    volume = directory / "restored" / uuid4().hex
    volume.mkdir(parents=True)
    return volume


def _clear(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    os.sync()  # what one side left to write must not be paid by the other


def _plant(home: Path, *, total: int, files: int) -> None:
    """A home of this size: a third of its bytes cannot be compressed, the rest reads like source."""
    chance = random.Random(7)
    words = b" ".join(chance.randbytes(4).hex().encode() for _ in range(20_000))
    size = total // files
    for number in range(files):
        path = home / f"d{number % 331}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        length = max(1, int(size * chance.uniform(0.1, 1.9)))
        if number % 3 == 0:
            path.write_bytes(chance.randbytes(length))
        else:
            at = chance.randrange(len(words))
            path.write_bytes((words[at:] + words * (length // len(words) + 1))[:length])
