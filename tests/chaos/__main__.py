"""The long round, by hand: ``make chaos``, or ``make chaos ROUNDS=20 SEED=7 FAULTS=Redis``.

``ROUNDS`` kills of the leader and as many other faults, each kind in turn; then, where this machine can run a
Docker engine of its own, a tenth as many on Docker. ``FAULTS`` chooses by a part of the name, and strikes
with each of those ``ROUNDS`` times. The seed is printed first: it draws the same faults in the same order.
"""

import asyncio
import os
import secrets
import shutil
import sys
import time
from collections.abc import Sequence

from tests.chaos.faults import DOCKER_FAULTS, FAULTS, Fault, schedule
from tests.chaos.grounds import docker_ground, local_ground
from tests.chaos.round import play


def main() -> int:
    rounds = int(os.environ.get("ROUNDS") or 50)
    seed = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
    wanted = os.environ.get("FAULTS", "")
    local = schedule(seed, kills=rounds, others=rounds, slow=True)
    docker = list(DOCKER_FAULTS) * max(1, rounds // 10)
    if wanted:
        local = [fault for fault in FAULTS.values() if wanted in fault.name] * rounds
        docker = [fault for fault in DOCKER_FAULTS if wanted in fault.name and "Docker" in wanted] * rounds
    if docker and (os.geteuid() != 0 or shutil.which("dockerd") is None):
        print("No Docker engine can be started here (that takes root and dockerd): its faults are left out.")
        docker = []
    broken = [_play(faults, seed=seed, on_docker=faults is docker) for faults in (local, docker) if faults]
    if any(broken):
        print(f"Again: make chaos SEED={seed} ROUNDS={rounds} FAULTS={wanted!r}")
    return int(any(broken))


def _play(faults: Sequence[Fault], *, seed: int, on_docker: bool) -> bool:
    """Whether a promise was broken."""
    print(f"seed {seed}, {len(faults)} faults; load of this machine {os.getloadavg()[0]:.2f}", flush=True)
    begun = time.monotonic()
    ground = docker_ground if on_docker else local_ground
    report = asyncio.run(play(faults, seed=seed, ground=ground, tell=lambda line: print(line, flush=True)))
    print(f"\n{report.text}\n\n{time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.2f}")
    for problem in report.problems:
        print(f"BROKEN {problem}")
    return bool(report.problems)


if __name__ == "__main__":
    sys.exit(main())
