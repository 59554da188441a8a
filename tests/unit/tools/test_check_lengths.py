"""Long files and functions are found, and no entry of the allow-list outlives its reason."""

from pathlib import Path

import pytest
from tools import check_lengths


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check_lengths, "ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    return tmp_path / "src" / "a.py"


def body(lines: int) -> str:
    return "".join(f"        x = {number}\n" for number in range(lines))


def test_a_function_may_have_fifty_lines(source: Path) -> None:
    source.write_text("class A:\n    async def f(self):\n" + body(49))
    assert list(check_lengths.too_long(source)) == []
    source.write_text("class A:\n    async def f(self):\n" + body(50))
    assert list(check_lengths.too_long(source)) == [("src/a.py::A.f", 51)]


def test_a_file_may_have_four_hundred(source: Path) -> None:
    source.write_text("x = 1\n" * 400)
    assert list(check_lengths.too_long(source)) == []
    source.write_text("x = 1\n" * 401)
    assert list(check_lengths.too_long(source)) == [("src/a.py", 401)]


def test_the_allow_list_only_shrinks(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write_text("x = 1\n" * 410)
    for allowed, code in ({}, 1), ({"src/a.py": 409}, 1), ({"src/a.py": 410}, 0), ({"src/a.py": 411}, 1):
        monkeypatch.setattr(check_lengths, "ALLOWED", allowed)
        assert check_lengths.main([]) == code, allowed


def test_this_repository_passes() -> None:
    assert check_lengths.main([]) == 0
