"""``make simulate SEEDS=0-999``: run seeds, print the trace of the first that fails.

A single seed prints its trace in any case.
"""

import os
import sys
import time

from tests.simulation.determinism import deterministic
from tests.simulation.seeds import parse_seeds
from tests.simulation.simulation import investigate, run


def main() -> int:
    seeds = parse_seeds(os.environ.get("SEED") or os.environ.get("SEEDS") or "0-999")
    began = time.monotonic()
    with deterministic():
        if len(seeds) == 1:
            outcome = run(seeds[0], traced=True)
            print(outcome.report())
            return int(outcome.problem is not None)
        for seed in seeds:
            outcome = investigate(seed)
            if outcome.problem is not None:
                print(outcome.report())
                return 1
    took = time.monotonic() - began
    print(f"{len(seeds)} seeds hold, {len(seeds) / took:.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
