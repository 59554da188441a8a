"""What of the fresh directories a sandbox shows: the program it runs, with its installation, and no more."""

from pathlib import Path

from codehub.runtimes.local.sandbox import Sandbox


def shown(tmp_path: Path, *command: str) -> set[str]:
    prefix = Sandbox("bwrap", tmp_path / "data").prefix(tmp_path / "data" / "home", command=command)
    return {prefix[at + 1] for at, word in enumerate(prefix) if word == "--ro-bind-try"}


def test_a_program_in_bin_is_shown_with_its_installation(tmp_path: Path) -> None:
    assert {"/tmp/ide", "/tmp/ide/bin/server"} <= shown(tmp_path, "/tmp/ide/bin/server")


def test_a_fresh_directory_is_never_shown_as_a_whole(tmp_path: Path) -> None:
    seen = shown(tmp_path, "/tmp/bin/server", "--config=/tmp/settings")
    assert {"/tmp/bin/server", "/tmp/settings"} <= seen
    assert "/tmp" not in seen
