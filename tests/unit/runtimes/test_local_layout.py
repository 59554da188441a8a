"""An unmounted or a foreign disk is an error, never an empty installation."""

from pathlib import Path
from uuid import uuid4

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.local.layout import MARKER, Layout, find_uuid, workspace_of


def layout(root: Path, installation: str = "ours") -> Layout:
    return Layout(root / "data", installation)


def refused(call: Layout, *, create: bool = True) -> str:
    with pytest.raises(EffectError) as caught:
        call.prepare(create=create)
    assert caught.value.failure is FailureCode.LOCAL_RUNTIME_ERROR
    return caught.value.message


def test_a_first_start_makes_everything_private(tmp_path: Path) -> None:
    fresh = layout(tmp_path)
    fresh.prepare(create=True)
    fresh.check()
    assert fresh.volumes.stat().st_mode & 0o777 == 0o700
    assert fresh.run.stat().st_mode & 0o777 == 0o700


def test_preparing_again_changes_nothing(tmp_path: Path) -> None:
    layout(tmp_path).prepare(create=True)
    layout(tmp_path).prepare(create=True)
    layout(tmp_path).prepare(create=False)


def test_an_empty_directory_is_not_taken_for_a_known_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert "mounted" in refused(layout(tmp_path), create=False)


def test_volumes_that_went_missing_are_not_made_anew(tmp_path: Path) -> None:
    known = layout(tmp_path)
    known.prepare(create=True)
    (known.volumes / MARKER).unlink()
    assert "mounted" in refused(layout(tmp_path))


def test_the_disk_of_another_installation_is_refused(tmp_path: Path) -> None:
    layout(tmp_path, "theirs").prepare(create=True)
    assert "another" in refused(layout(tmp_path, "ours"))


def test_homes_of_unknown_origin_are_not_taken_over(tmp_path: Path) -> None:
    ours = layout(tmp_path)
    ours.volume(uuid4()).mkdir(parents=True)
    assert "unknown" in refused(ours)


def test_a_first_start_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    half = layout(tmp_path)
    half.volumes.mkdir(parents=True)
    (half.volumes / MARKER).write_text("ours\n")
    half.prepare(create=True)


def test_only_exact_names_are_workspaces() -> None:
    known = uuid4()
    assert workspace_of(f"ws-{known}-home") == known
    assert find_uuid(str(known)) == known
    for name in ("ws-x-home", f"ws-{known}-home.bak", f"ws-{known}", ".trash", f"WS-{known}-home"):
        assert workspace_of(name) is None
    assert find_uuid(f"{{{known}}}") is None
