"""A storage job in a container for tests: the real one, unless a file tells it to misbehave.

``{store}/{workspace_id}.behaviour`` says ``happy`` (the default), ``fail``, ``crash``, ``slow`` or ``die N``
(before the N-th entry of the home is moved or removed), where the store is the directory of the ``file://``
archive URL.
"""

import json
import os
import sys
import time
from pathlib import Path


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    order = json.loads(sys.stdin.read())
    store = Path(order["archive_url"].removeprefix("file://"))
    behaviour_file = store / f"{order['workspace_id']}.behaviour"
    behaviour = behaviour_file.read_text() if behaviour_file.exists() else "happy"
    print("not a message")
    say(event="progress", done_bytes=1, total_bytes=2, files=1)
    if behaviour == "fail":
        say(event="failed", code="CHECKSUM_MISMATCH", message="damaged", context={"detail": "bit flipped"})
        sys.exit(1)
    if behaviour == "crash":
        print("out of luck", file=sys.stderr)
        os._exit(7)
    if behaviour == "slow":
        time.sleep(1000)
    if behaviour.startswith("die "):
        die_before_step(int(behaviour.removeprefix("die ")))
        run_the_real_one_here({**order, "retry_delays": []})
    run_the_real_one({**order, "retry_delays": []})


def die_before_step(step: int) -> None:
    seen = 0

    def hook(event: str, _arguments: object) -> None:
        nonlocal seen
        if event in ("os.rename", "os.remove", "os.rmdir"):
            seen += 1
            if seen == step:
                os._exit(
                    137
                )  # process 1 of a container takes no SIGKILL of its own; nothing is tidied up either

    sys.addaudithook(hook)


def run_the_real_one_here(order: dict[str, object]) -> None:
    from codehub.archives.job import main as run

    give_as_input(order)
    os._exit(run())


def run_the_real_one(order: dict[str, object]) -> None:
    give_as_input(order)
    os.execv(sys.executable, [sys.executable, "-m", "codehub.archives.job"])


def give_as_input(order: dict[str, object]) -> None:
    reading, writing = os.pipe()
    os.write(writing, json.dumps(order).encode())  # fits into a pipe
    os.close(writing)
    os.dup2(reading, 0)
    sys.stdin = os.fdopen(0, closefd=False)


if __name__ == "__main__":
    main()
