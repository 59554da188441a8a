"""The long round, by hand: ``make chaos``, or ``make chaos ROUNDS=20 SEED=7``.

``ROUNDS`` kills of the leader, and every other fault about as often in all. ``FAULTS`` chooses by a part of
the name. Prints the seed first, so that the same faults can be struck again in the same order.
"""

import asyncio
import os
import secrets
import sys
import time

from tests.chaos.faults import FAULTS, schedule
from tests.chaos.round import play


def main() -> int:
    rounds = int(os.environ.get("ROUNDS") or 50)
    seed = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
    wanted = os.environ.get("FAULTS", "")
    faults = schedule(seed, kills=rounds, others=rounds, slow=True)
    if wanted:
        faults = [fault for fault in FAULTS.values() if wanted in fault.name] * rounds
    print(f"seed {seed}, {len(faults)} faults; load of this machine {os.getloadavg()[0]:.2f}", flush=True)
    begun = time.monotonic()
    report = asyncio.run(play(faults, seed=seed, tell=lambda line: print(line, flush=True)))
    print(f"\n{report.text}\n\n{time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.2f}")
    for problem in report.problems:
        print(f"BROKEN {problem}")
    if report.problems:
        print(f"Again: make chaos SEED={seed} ROUNDS={rounds}")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
