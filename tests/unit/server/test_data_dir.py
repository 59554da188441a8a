"""The data directory: who may use it, and names short enough for sockets."""

import os
from pathlib import Path

import pytest

from codehub.server.data_dir import DataDir, DataDirInUseError, DataDirUnusableError


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


def test_a_long_path_gets_a_short_directory_for_sockets(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / ("a" * 100))
    data_dir.prepare()
    with data_dir.locked():
        first = data_dir.sockets()
        assert len(str(first)) <= 85
        assert first.stat().st_uid == os.geteuid()
    assert not first.exists()
    with data_dir.locked():
        assert data_dir.sockets() == first, "the same one every time"


def test_moving_the_directory_moves_the_sockets(tmp_path: Path) -> None:
    long = DataDir(tmp_path / ("a" * 100))
    long.prepare()
    with long.locked():
        old = long.sockets()
        kept = os.readlink(long.run)
    os.symlink(kept, long.run)  # as a killed process leaves it
    moved = DataDir(long.path.rename(tmp_path / ("b" * 100)))
    with moved.locked():
        assert moved.sockets() != old
        assert moved.sockets().is_dir()


def test_a_strangers_directory_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    data_dir = DataDir(tmp_path / ("a" * 100))
    data_dir.prepare()
    with data_dir.locked():
        short = data_dir.sockets()
    short.symlink_to(tmp_path)  # laid out by somebody who knows the name
    try:
        with pytest.raises(DataDirUnusableError, match="somebody else"), data_dir.locked():
            pass
    finally:
        short.unlink()
