"""Rows without types are found in mypy's report, and nothing else is."""

from tools.check_rows import untyped

REPORT = """\
src/a.py:1: error: Expression type contains "Any" (has type "Rows[Any]")  [misc]
src/a.py:2: error: Expression type contains "Any" (has type "Rows[tuple[UUID, Any]]")  [misc]
src/a.py:3: error: Expression type contains "Any" (has type "Column[Any]")  [misc]
src/a.py:4: error: Expression type contains "Any" (has type "Coroutine[Any, Any, Rows[UUID]]")  [misc]
src/a.py:5: note: Revealed type is "Rows[UUID]"
Found 4 errors in 1 file (checked 1 source file)
"""


def test_only_rows_that_are_untyped_are_reported() -> None:
    assert list(untyped(REPORT)) == ["src/a.py:1: Rows[Any]", "src/a.py:2: Rows[tuple[UUID, Any]]"]
