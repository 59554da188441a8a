"""A judge who never finds anything would find every round in order: each kind of harm is shown to it once."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import zstandard

from tests.chaos import truth
from tests.chaos.environment import ChaosEnvironment
from tests.chaos.load import Ledger
from tests.chaos.runtime_setups import LocalSetup
from tests.support.waiting import until

ONE, OTHER = "0198c0de-0000-7000-8000-000000000001", "0198c0de-0000-7000-8000-000000000002"
NOTES = {"notes": hashlib.sha256(b"mine").hexdigest()}


class RuntimeSetup:
    """Directories, and servers as the test says."""

    image = "tiny"

    def __init__(self, root: Path) -> None:
        self._root = root
        self.archives = root / "archives"
        self.running: list[str] = []

    def settings(self) -> Mapping[str, str]:
        return {}

    def home(self, workspace_id: str) -> Path:
        return self._root / f"ws-{workspace_id}-home"

    def homes(self) -> list[Path]:
        return list(self._root.glob("ws-*-home"))

    def servers(self) -> list[str]:
        return self.running

    def doubled(self) -> list[str]:
        return []

    def store(self, operation: str, *, meta: bool = True, **files: bytes) -> str:
        """An archive of ``ONE``; returns its key."""
        key = f"{ONE}/{operation}/1/home.tar.zst"
        path = self.archives / key
        path.parent.mkdir(parents=True)
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w") as tar:
            for name, content in files.items():
                member = tarfile.TarInfo(f"./{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        path.write_bytes(zstandard.compress(plain.getvalue()))
        if meta:
            path.with_name("home.tar.zst.meta").touch()
        return key


@pytest.fixture
def setup(tmp_path: Path) -> RuntimeSetup:
    setup = RuntimeSetup(tmp_path)
    setup.home(ONE).mkdir()
    (setup.home(ONE) / "notes").write_bytes(b"mine")
    setup.running = [ONE]
    return setup


@contextmanager
def running(command: list[str], env: dict[str, str]) -> Iterator[None]:
    with subprocess.Popen(command, env=env) as process:
        try:
            yield
        finally:
            process.kill()


async def _is(look: Callable[[], list[str]], expected: list[str]) -> bool:
    return look() == expected


def row(observed: str = "RUNNING", **more: Any) -> Any:
    return {"observed_status": observed, "archive_key": None, "op_id": "now", **more}


def test_a_home_as_it_was_left_is_in_order(setup: RuntimeSetup) -> None:
    assert truth.judge_home(setup, Ledger(ONE, "start", NOTES), row()) == []
    assert truth.judge_processes(setup, {ONE: row()}) == []
    assert truth.judge_volumes(setup, {ONE: row()}) == []


def test_a_file_that_is_missing_changed_or_invented_is_seen(setup: RuntimeSetup) -> None:
    notes = setup.home(ONE) / "notes"
    ledger = Ledger(ONE, "start", NOTES)
    (setup.home(ONE) / "stranger").touch()
    assert "invented {'stranger'}" in truth.judge_home(setup, ledger, row())[0]
    notes.write_bytes(b"not mine")
    assert "changed {'notes'}" in truth.judge_home(setup, ledger, row())[0]
    notes.unlink()
    assert "missing {'notes'}" in truth.judge_home(setup, ledger, row())[0]


def test_an_archive_is_read_to_the_last_file(setup: RuntimeSetup) -> None:
    ledger = Ledger(ONE, "archive", NOTES)
    whole, empty = setup.store("a", notes=b"mine"), setup.store("b")
    unfinished = setup.store("c", meta=False, notes=b"mine")
    assert truth.judge_home(setup, ledger, row("PENDING", archive_key=whole)) == []
    for key in (empty, unfinished, None):
        assert "missing {'notes'}" in truth.judge_home(setup, ledger, row("PENDING", archive_key=key))[0]


def test_a_second_process_and_one_of_nobody_are_seen(setup: RuntimeSetup) -> None:
    setup.running = [ONE, ONE, OTHER]
    wrong = truth.judge_processes(setup, {ONE: row(), OTHER: row("STANDBY")})
    assert sorted(wrong) == [f"1 processes of {OTHER}, 0 expected", f"2 processes of {ONE}, 1 expected"]


def test_a_volume_of_nobody_and_a_missing_one_are_seen(setup: RuntimeSetup) -> None:
    wrong = truth.judge_volumes(setup, {OTHER: row("STANDBY")})
    assert sorted(wrong) == [f"volume of {ONE} is an orphan", f"volume of {OTHER} is missing"]


def test_archives_that_the_collection_should_have_removed_are_seen(setup: RuntimeSetup) -> None:
    for operation in ("now", "a", "b", "c"):
        setup.store(operation)
    assert truth.judge_archives(setup, {ONE: row()}) == []
    assert "deleted" in truth.judge_archives(setup, {})[0]
    setup.store("debris", meta=False)
    assert "debris" in truth.judge_archives(setup, {ONE: row()})[0]


def test_a_workspace_of_nobody_is_seen_unless_it_was_asked_for_in_vain() -> None:
    made = {ONE: row(name="home"), OTHER: row(name="late")}
    assert truth.judge_strangers(made, {ONE: Ledger(ONE, "start")}, late={"late"}) == []
    assert OTHER in truth.judge_strangers(made, {ONE: Ledger(ONE, "start")}, late=())[0]


def test_a_subscriber_with_another_picture_is_seen() -> None:
    watcher: Any = SimpleNamespace(replica=SimpleNamespace(name="north"), known={ONE: (3, "running")})
    rows = {ONE: row(version=3, status="running"), OTHER: row("DELETED", version=9, status="deleted")}
    assert truth.judge_picture(watcher, rows) == []
    for known in ({}, {ONE: (2, "running")}, {ONE: (3, "standby")}, {ONE: (3, "running"), OTHER: (8, "new")}):
        watcher.known = known
        assert "to a subscriber of north" in truth.judge_picture(watcher, rows)[0]


async def test_a_process_no_replica_answers_for_is_seen(tmp_path: Path) -> None:
    environment = ChaosEnvironment(tmp_path, *cast(Any, (None, "", None, None)))
    assert environment.strays() == []
    env = {**os.environ, "CODEHUB_DATA_DIR": str(tmp_path / "data")}
    with running(["sleep", "1000"], env):
        await until(
            partial(_is, environment.strays, ["sleep 1000 "]), seconds=20, what="the stray to be seen"
        )
        alive: Any = SimpleNamespace(alive=True, pid=os.getpid())
        environment.replicas.append(alive)  # the child of a living one is none
        assert environment.strays() == []


async def test_two_servers_at_one_moment_are_seen(tmp_path: Path) -> None:
    setup = LocalSetup(tmp_path, *cast(Any, (None, tmp_path)))
    env = {**os.environ, "HOME": str(tmp_path / "home"), "CODEHUB_WORKSPACE_ID": ONE}
    command = [sys.executable, "-c", "import time; time.sleep(1000)", "tiny_server.py"]
    with running(command, env):
        await until(partial(_is, setup.servers, [ONE]), seconds=20, what="the first server")
        assert setup.doubled() == []
        with running(command, env):
            await until(partial(_is, setup.doubled, [ONE]), seconds=20, what="the second server")
        assert setup.doubled() == []


def test_an_intent_that_was_acknowledged_is_not_forgotten() -> None:
    ledger = Ledger(ONE, "start")
    assert ledger.accept("RUNNING")
    assert not ledger.accept("PENDING")
    ledger.late.add("archive")  # asked of a server that froze; it was carried out after all
    assert ledger.accept("PENDING")
    assert ledger.intent == "archive"
