"""Output stays bounded, and reading it never shows half a line first."""

import os
from pathlib import Path

from codehub.runtimes.local import logs


def test_a_long_log_is_cut_while_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with open(path, "ab", buffering=0) as writer:
        writer.write(b"old\n" * 100)
        logs.rotate(path, max_bytes=100)
        writer.write(b"new\n")
    assert path.read_bytes() == b"new\n"
    assert logs.read_tail(path)[0] == b"old\n" * 100 + b"new\n"


def test_a_short_one_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"x" * 100)
    logs.rotate(path, max_bytes=100)
    assert os.listdir(tmp_path) == ["output.log"]
    logs.rotate(tmp_path / "none")


def test_the_tail_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(100)))
    data, position = logs.read_tail(path, max_bytes=20)
    assert data == b"line 98\nline 99\n"
    assert position == path.stat().st_size


def test_following_goes_on_after_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"one\n")
    data, position = logs.read_from(path, 0)
    path.write_bytes(b"2\n")
    assert (data, logs.read_from(path, position)) == (b"one\n", (b"2\n", 2))


def test_no_log_is_no_output(tmp_path: Path) -> None:
    assert logs.read_tail(tmp_path / "none") == (b"", 0)
    assert logs.read_from(tmp_path / "none", 7) == (b"", 0)
    assert logs.last_lines(tmp_path / "none") == []


def test_last_lines_are_those_of_this_attempt(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_text("an earlier attempt\nthis one\nfailed\n")
    assert logs.last_lines(path, since=19) == ["this one", "failed"]
