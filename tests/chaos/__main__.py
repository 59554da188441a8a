"""The long round, by hand: ``make chaos``, or ``make chaos ROUNDS=20 SEED=7 FAULTS=Redis RUNTIME=local``.

``ROUNDS`` kills of the leader and as many other faults, each kind in turn. ``RUNTIME``: ``local``, ``docker``, which
strikes a tenth as often, or ``kubernetes``; without one local, then Docker where this machine can run an engine of its
own. ``FAULTS`` chooses by a part of the name, and strikes with each of those ``ROUNDS`` times. The seed is printed
first: it draws the same faults in the same order.
"""

import asyncio
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.chaos.faults import DOCKER_FAULTS, FAULTS, Fault, schedule
from tests.chaos.kubernetes_faults import KUBERNETES_FAULTS
from tests.chaos.kubernetes_setup import own_cluster_setup
from tests.chaos.round import play
from tests.chaos.runtime_setups import RuntimeSetup, docker_setup, local_setup

_SETUPS: Mapping[str, Callable[[Path], AbstractContextManager[RuntimeSetup]]] = {
    "local": local_setup,
    "docker": docker_setup,
    "kubernetes": own_cluster_setup,
}


def main() -> int:
    rounds = int(os.environ.get("ROUNDS") or 50)
    seed = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
    wanted = os.environ.get("FAULTS", "")
    chosen = os.environ.get("RUNTIME", "")
    if chosen not in ("", *_SETUPS):
        sys.exit(f"RUNTIME is one of {', '.join(_SETUPS)}, not {chosen}")
    runtimes = [chosen] if chosen else ["local", "docker"]
    if "docker" in runtimes and (os.geteuid() != 0 or shutil.which("dockerd") is None):
        print("No Docker engine can be started here (that takes root and dockerd): its faults are left out.")
        runtimes.remove("docker")
    drawn = {each: _draw(each, seed=seed, rounds=rounds, wanted=wanted) for each in runtimes}
    broken = [_play(faults, seed=seed, runtime=each) for each, faults in drawn.items() if faults]
    if any(broken):
        print(f"Again: make chaos SEED={seed} ROUNDS={rounds} FAULTS={wanted!r} RUNTIME={chosen}")
    return int(any(broken))


def _draw(runtime: str, *, seed: int, rounds: int, wanted: str) -> list[Fault]:
    if runtime == "docker":
        named = [fault for fault in DOCKER_FAULTS if wanted in fault.name and "Docker" in wanted]
        return named * rounds if wanted else list(DOCKER_FAULTS) * max(1, rounds // 10)
    known = KUBERNETES_FAULTS if runtime == "kubernetes" else FAULTS
    if wanted:
        return [fault for fault in known.values() if wanted in fault.name] * rounds
    return schedule(seed, kills=rounds, others=rounds, slow=True, faults=known)


def _play(faults: Sequence[Fault], *, seed: int, runtime: str) -> bool:
    """Whether a promise was broken."""
    print(f"seed {seed}, {len(faults)} faults; load of this machine {os.getloadavg()[0]:.2f}", flush=True)
    begun = time.monotonic()
    try:
        report = asyncio.run(
            play(faults, seed=seed, setup=_SETUPS[runtime], tell=lambda line: print(line, flush=True))
        )
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
    print(f"\n{report.text}\n\n{time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.2f}")
    for problem in report.problems:
        print(f"BROKEN {problem}")
    return bool(report.problems)


if __name__ == "__main__":
    sys.exit(main())
