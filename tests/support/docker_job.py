"""A storage job in a container for tests: the real one, unless a file tells it to misbehave.

``{store}/{workspace_id}.behaviour`` says ``happy`` (the default), ``fail``, ``crash`` or ``slow``, where the
store is the directory of the ``file://`` archive URL.
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
    run_the_real_one({**order, "retry_delays": []})


def run_the_real_one(order: dict[str, object]) -> None:
    reading, writing = os.pipe()
    os.write(writing, json.dumps(order).encode())  # fits into a pipe
    os.close(writing)
    os.dup2(reading, 0)
    os.execv(sys.executable, [sys.executable, "-m", "codehub.archives.job"])


if __name__ == "__main__":
    main()
