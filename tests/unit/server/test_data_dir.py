"""The data directory: who may use it, and names short enough for sockets."""

import os
import stat
from pathlib import Path

import pytest

from codehub.server.data_dir import DataDir, DataDirInUseError, DataDirUnusableError
from codehub.server.root_powers import private_mode
from codehub.server.socket_dir import LONGEST


def test_only_one_holds_the_lock(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "data")
    data_dir.prepare()
    second = DataDir(tmp_path / "data")
    with data_dir.locked(), pytest.raises(DataDirInUseError, match=str(os.getpid())), second.locked():
        pass
    with data_dir.locked():
        pass


def test_it_is_closed_to_others(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "data")
    data_dir.prepare()
    assert data_dir.path.stat().st_mode & 0o066 == 0
    assert data_dir.logs.stat().st_mode & 0o077 == 0


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataDirUnusableError, match="CODEHUB_DATA_DIR"):
        DataDir(tmp_path / "file").prepare()


def test_nobody_else_may_enter_it(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "data")
    with data_dir.sockets_in_use() as sockets:
        assert stat.S_IMODE(data_dir.path.stat().st_mode) == private_mode()
        assert stat.S_IMODE(sockets.stat().st_mode) == private_mode()


@pytest.mark.parametrize("name", ["a" * 100, "with space", "코드허브", "a,b", "a%20b+c?d#e"])
def test_a_path_that_does_not_suit_sockets_gets_a_directory_elsewhere(tmp_path: Path, name: str) -> None:
    data_dir = DataDir(tmp_path / name)
    with data_dir.sockets_in_use() as first:
        assert first == data_dir.sockets()
        assert len(str(first)) <= LONGEST
        assert first.stat().st_uid == os.geteuid()
        assert stat.S_IMODE(first.stat().st_mode) == private_mode()
        assert not data_dir.path.is_relative_to(first)
        assert not data_dir.run.is_symlink(), "what is kept stays in the data directory"
    assert not first.exists()
    assert not data_dir.sockets().exists()


def test_replicas_share_it_and_the_last_one_removes_it(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / ("a" * 100))
    with data_dir.sockets_in_use() as first:
        with data_dir.sockets_in_use() as second:
            assert first == second
        assert first.is_dir()
    assert not first.exists()


def test_what_a_killed_process_left_is_used_again_and_removed(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / ("a" * 100))
    data_dir.prepare()
    pid = os.fork()
    if pid == 0:
        with data_dir.sockets_in_use():
            os._exit(0)  # as kill -9: nothing is undone
    os.waitpid(pid, 0)
    left = data_dir.sockets()
    assert left.is_dir()
    with data_dir.sockets_in_use() as found:
        assert found == left
    assert not left.exists()


def test_moving_the_directory_moves_the_sockets(tmp_path: Path) -> None:
    long = DataDir(tmp_path / ("a" * 100))
    with long.sockets_in_use() as old:
        kept = os.readlink(long.path / "sockets")
        moved = DataDir(tmp_path / ("b" * 100))
        moved.prepare()
        os.symlink(kept, moved.path / "sockets")  # copied while the other one runs
        with moved.sockets_in_use() as new:
            assert new != old
        assert old.is_dir()


def test_a_strangers_directory_is_not_used(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / ("a" * 100))
    with data_dir.sockets_in_use() as own:
        name = own.name
    open_to_all = tmp_path / name
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (data_dir.path / "sockets").symlink_to(open_to_all)
    with data_dir.sockets_in_use() as used:
        assert used != open_to_all
    assert open_to_all.is_dir()


def test_records_that_an_earlier_version_kept_elsewhere_come_home(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / ("a" * 100))
    data_dir.prepare()
    elsewhere = tmp_path / "codehub-0-abc"
    (elsewhere / "locks").mkdir(parents=True)
    (elsewhere / "locks" / "one").write_text("7 7")
    (elsewhere / "pg").mkdir()
    data_dir.run.symlink_to(elsewhere)
    with data_dir.sockets_in_use():
        assert not data_dir.run.is_symlink()
        assert (data_dir.run / "locks" / "one").read_text() == "7 7"
        assert stat.S_IMODE(data_dir.run.stat().st_mode) == private_mode()
        assert not (data_dir.run / "pg").exists()
    assert not elsewhere.exists()
