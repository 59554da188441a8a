"""A storage job in a container for tests: the real one, unless its archive store tells it to misbehave.

``{store}/{workspace_id}.behaviour`` says ``happy`` (the default), ``fail``, ``crash``, ``slow`` or ``die STRIDE``
(a restore is killed before each STRIDE-th step of its swap and finished by the next one; ``.steps`` says how many
steps there were; for ``file://`` stores alone).
"""

import json
import os
import sys
import time
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.killed_at import kill_before_step, killed_before_step
from tests.support.trees import Entry, hardlink_groups, snapshot


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else sys.stdin.read())
    del sys.argv[1:]
    behaviour = find_behaviour(order) or "happy"
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
    order["retry_delays"] = []
    if behaviour.startswith("die "):
        steps = kill_at_every_step(order, stride=int(behaviour.removeprefix("die ")))
        directory = store_directory(order)
        assert directory is not None, "only jobs with file:// archives are told to die"
        (directory / f"{order['workspace_id']}.steps").write_text(str(steps))
    run_the_real_one(order)


def find_behaviour(order: dict[str, Any]) -> str | None:
    name = f"{order['workspace_id']}.behaviour"
    directory = store_directory(order)
    if directory is not None:  # no client: its threads would not survive the forks of ``die``
        path = directory / name
        return path.read_text() if path.exists() else None
    from obstore import get

    from codehub.archives.connect import open_backend

    options = order.get("storage_options") or {}
    store = open_backend(order["archive_url"], options=options, create=False).backend
    try:
        return bytes(get(store, name).bytes()).decode()
    except FileNotFoundError:
        return None


def store_directory(order: dict[str, Any]) -> Path | None:
    parts = urlsplit(order["archive_url"])
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def kill_at_every_step(order: dict[str, object], *, stride: int) -> int:
    """Kill a restore before the first, second, … step of its swap; the next try makes the home what it was.

    Each try is a process of its own, in this container and on its volume: a container per try would take minutes.
    Returns the number of steps of a swap that came to its end.
    """
    import_module("codehub.archives.job")  # once, for all tries
    home = Path(str(order["volume_path"]))
    wanted = (snapshot(home), hardlink_groups(home))
    for step in count(1, stride):
        killed = killed_before_step(partial(restore, order, step), None)
        if killed:
            assert not killed_before_step(partial(restore, order, None), None)
        found = (snapshot(home), hardlink_groups(home))
        assert found == wanted, (
            f"another home after a kill before step {step}: {difference(found[0], wanted[0])}"
        )
        if not killed:
            return step
    raise AssertionError("unreachable")


def difference(found: dict[bytes, Entry], wanted: dict[bytes, Entry]) -> str:
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    return ", ".join(f"{name!r}: {found.get(name)} for {wanted.get(name)}" for name in names[:5])


def restore(order: dict[str, object], step: int | None) -> None:
    """Run the job in this process. Its steps are counted from where it puts the home in place."""
    from codehub.archives.job import main as run
    from codehub.archives.swap import WithinVolume

    if step is not None:
        publish = WithinVolume.publish

        def counted(self: WithinVolume, home: Path) -> None:
            kill_before_step(step)
            publish(self, home)

        WithinVolume.publish = counted  # type: ignore[method-assign]
    give_as_input(order)
    sys.stdout = sys.stderr  # as a result counts only what the last try says
    assert run() == 0, "the restore failed"


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
