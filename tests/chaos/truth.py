"""What must be true when everybody has come to rest, as seen from outside: rows, files, processes, objects.

Nothing here asks the product. Homes are read from the disk, archives from the store's own directory by other
code than wrote them, processes from the kernel.
"""

import asyncio
import hashlib
import io
import os
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import asyncpg
import zstandard

from tests.chaos import audit
from tests.chaos.environment import ChaosEnvironment
from tests.chaos.load import Ledger
from tests.chaos.runtime_setups import RuntimeSetup
from tests.chaos.watching import Watcher

GC_SECONDS = 60.0
SSE_SECONDS = 30.0
STRAY_SECONDS = 30.0  # a proxy whose server is gone lets open requests end
KEPT_GENERATIONS = 3
Rows = Mapping[str, asyncpg.Record]

_ROWS = """
SELECT id::text, name, status, observed_status::text, desired_state::text, operation::text, archive_key,
       op_id::text, error_info, version, deleted_at IS NOT NULL AS deleted,
       coalesce(error_info @> '{"is_terminal": true}', false)
       OR (operation = 'NONE' AND desired_state = 'PENDING'
           AND home_ctx ->> 'archive_retry_at' IS NOT NULL) AS gave_up
FROM workspaces
"""


@dataclass
class Findings:
    """``lost`` and ``doubled`` apart from the rest: these two must be empty above all."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[str]:
        return [*self.lost, *self.doubled, *self.others]


async def read_rows(environment: ChaosEnvironment) -> Rows:
    return {row["id"]: row for row in await environment.rows(_ROWS)}


async def restless(environment: ChaosEnvironment) -> list[str]:
    """Workspaces that are not where they are wanted, or on the way somewhere."""
    return [
        f"{row['id']} is {row['status']}, wanted {row['desired_state']}, error {row['error_info']}"
        for row in (await read_rows(environment)).values()
        if row["operation"] != "NONE"
        or row["observed_status"] != ("DELETED" if row["deleted"] else row["desired_state"])
        or (row["gave_up"] and not row["deleted"])
    ]


async def judge(
    environment: ChaosEnvironment,
    ledgers: Mapping[str, Ledger],
    watchers: Sequence[Watcher],
    *,
    late: Collection[str] = (),
) -> Findings:
    """Everything that is wrong. The round is at rest: nobody asks for anything.

    ``late``: names that were asked for and never answered. A server that was frozen may make one after all.
    """
    rows = await read_rows(environment)
    live = {key: row for key, row in rows.items() if not row["deleted"]}
    found = Findings()
    found.lost += [f"workspace {each} has no row" for each in ledgers.keys() - live.keys()]
    found.doubled += judge_strangers(live, ledgers, late=late)
    for key in sorted(ledgers.keys() & live.keys()):
        found.lost += await asyncio.to_thread(judge_home, environment.setup, ledgers[key], live[key])
    found.doubled += await asyncio.to_thread(judge_processes, environment.setup, live)
    found.others += [
        f"{key} is in error: {row['error_info']}" for key, row in live.items() if row["error_info"]
    ]
    found.others += judge_volumes(environment.setup, live)
    found.others += await audit.problems(environment)
    found.others += await _patiently(partial(judge_archives, environment.setup, live), seconds=GC_SECONDS)
    found.others += await _patiently(environment.strays, seconds=STRAY_SECONDS)
    for watcher in watchers:
        found.others += await _patiently(partial(judge_picture, watcher, rows), seconds=SSE_SECONDS)
    return found


def judge_strangers(live: Rows, ledgers: Mapping[str, Ledger], *, late: Collection[str]) -> list[str]:
    return [
        f"workspace {key} was asked for by nobody"
        for key in live.keys() - ledgers.keys()
        if live[key]["name"] not in late
    ]


async def _patiently(look: Callable[[], list[str]], *, seconds: float) -> list[str]:
    """What is still wrong in the end: some things are promised within a time, not at once."""
    deadline = time.monotonic() + seconds
    while (wrong := await asyncio.to_thread(look)) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return wrong


def judge_home(setup: RuntimeSetup, ledger: Ledger, row: asyncpg.Record) -> list[str]:
    """Every file with its content, none besides: on the disk, or in the archive."""
    if row["observed_status"] != "PENDING":
        files = files_of_home(setup.home(ledger.id))
    elif row["archive_key"] is not None:
        files = files_of_archive(setup.archives / row["archive_key"])
    else:
        files = {}
    if files == ledger.files:
        return []
    missing, invented = ledger.files.keys() - files.keys(), files.keys() - ledger.files.keys()
    changed = {name for name in ledger.files.keys() & files.keys() if ledger.files[name] != files[name]}
    return [f"home of {ledger.id}: missing {missing}, invented {invented}, changed {changed}; {dict(row)}"]


def files_of_home(home: Path) -> dict[str, str]:
    """The round's own files, below the home or missing with it. What CodeHub keeps there is dotted."""
    if not home.is_dir():
        return {}
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in home.iterdir()
        if path.is_file() and not path.name.startswith(".")
    }


def files_of_archive(path: Path) -> dict[str, str]:
    if not path.exists() or not path.with_name(f"{path.name}.meta").exists():
        return {}
    with path.open("rb") as compressed:
        plain = zstandard.ZstdDecompressor().stream_reader(compressed).read()
    found = {}
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None and not name.startswith("."):
                found[name] = hashlib.sha256(content.read()).hexdigest()
    return found


def judge_processes(setup: RuntimeSetup, live: Rows) -> list[str]:
    """One server for each that runs, none for any other."""
    counts = Counter(setup.servers())
    wanted = {key: 1 for key, row in live.items() if row["observed_status"] == "RUNNING"}
    return [
        f"{counts.get(key, 0)} processes of {key}, {wanted.get(key, 0)} expected"
        for key in counts.keys() | wanted.keys()
        if counts.get(key, 0) != wanted.get(key, 0)
    ]


def judge_volumes(setup: RuntimeSetup, live: Rows) -> list[str]:
    there = {path.name[3:-5] for path in setup.homes()}
    wanted = {key for key, row in live.items() if row["observed_status"] in ("STANDBY", "RUNNING")}
    return [f"volume of {each} is an orphan" for each in there - wanted] + [
        f"volume of {each} is missing" for each in wanted - there
    ]


def judge_archives(setup: RuntimeSetup, live: Rows) -> list[str]:
    """Of a deleted workspace nothing is left; of a living one only generations and its last operation's."""
    attempts: dict[str, list[Path]] = {}
    for path in _objects(setup.archives):
        attempts.setdefault(path.parts[-4], []).append(path)
    wrong = []
    for key, paths in attempts.items():
        row = live.get(key)
        if row is None:
            wrong.append(f"{len(paths)} objects of {key}, which is deleted")
            continue
        older = [path for path in paths if path.parts[-3] != row["op_id"]]
        whole = {path.parent for path in older if path.name.endswith(".meta")}
        debris = [path for path in older if path.parent not in whole]
        if debris or len(whole) > KEPT_GENERATIONS:
            wrong.append(f"archives nobody needs of {key}: debris {debris}, {len(whole)} generations")
    return wrong


def _objects(archives: Path) -> Iterator[Path]:
    """``{workspace}/{operation}/{attempt}/home.tar.zst*``. The GC may be at work: what it removes is gone."""
    for directory, _, names in os.walk(archives):
        paths = (Path(directory, name) for name in names if name.startswith("home.tar.zst"))
        yield from (path for path in paths if len(path.relative_to(archives).parts) == 4)


def judge_picture(watcher: Watcher, rows: Rows) -> list[str]:
    """Invariant 8: the subscriber's picture is the database."""
    truth = {
        key: (row["version"], row["status"])
        for key, row in rows.items()
        if row["observed_status"] != "DELETED"
    }
    return [
        f"to a subscriber of {watcher.replica.name} {key} is {watcher.known.get(key)}, not {truth.get(key)}"
        for key in truth.keys() | watcher.known.keys()
        if truth.get(key) != watcher.known.get(key)
    ]
