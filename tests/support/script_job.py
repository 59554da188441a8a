"""A storage job for tests: speaks the runtime's protocol and behaves as a file tells it.

The archive URL is ``file://{directory}``. ``{directory}/{workspace_id}.behaviour`` says ``happy`` (the
default), ``fail``, ``crash`` or ``slow``; archives are JSON files in the same directory, holding the plain
files of the volume. No format of CodeHub's: only enough to see that a home comes back.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    order = json.loads(sys.stdin.readline())
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
        subprocess.Popen(["sleep", "1000"])  # a helper, as tar would be
        time.sleep(1000)
    if order["kind"] == "archive":
        archive(order, store)
    else:
        restore(order, store)


def archive(order: dict[str, str], store: Path) -> None:
    volume = Path(order["volume_path"])
    files = {str(path.relative_to(volume)): path.read_text() for path in volume.rglob("*") if path.is_file()}
    key = f"{order['workspace_id']}/{order['op_id']}/1/home.tar.zst"
    target = store / key
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(files))
    say(event="done", archive_key=key, bytes=target.stat().st_size, files=len(files), skipped=0)


def restore(order: dict[str, str], store: Path) -> None:
    key, staging, volume = order["archive_key"], Path(order["staging_dir"]), Path(order["volume_path"])
    if not (store / key).exists():
        say(event="failed", code="ARCHIVE_NOT_FOUND", message="no such archive", context={"archive_key": key})
        sys.exit(1)
    files = json.loads((store / key).read_text())
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    for name, content in files.items():
        (staging / name).write_text(content)
    shutil.rmtree(volume, ignore_errors=True)
    staging.rename(volume)
    say(event="done", archive_key=key, bytes=(store / key).stat().st_size, files=len(files), skipped=0)


if __name__ == "__main__":
    main()
