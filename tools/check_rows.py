"""Check that mypy knows the type of every row that src/ reads from the database.

``python -m tools.check_rows`` prints the statements whose rows are ``Any`` and ends with 1 if there are any. The
word itself is refused by mypy's own options (``disallow_any_explicit`` in pyproject.toml), but a column without a
type (``table.c.id``, ``func.something()``, ``select(*columns)``) brings it in by inference. mypy reports that only
together with every expression SQLAlchemy itself leaves untyped (``disallow_any_expr``), hence this filter.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[1]
PLACES = ("src/codehub/store", "src/codehub/services")
CACHE = ".mypy_cache/rows"

_UNTYPED = re.compile(r'^(?P<place>\S+?:\d+): error: .*\(has type "(?P<type>Rows\[.*\bAny\b.*\])"\)')


def untyped(report: str) -> Iterator[str]:
    """Yield place and type of rows that are ``Any`` or contain it."""
    for line in report.splitlines():
        if found := _UNTYPED.match(line):
            yield f"{found['place']}: {found['type']}"


def main() -> int:
    report, errors, status = api.run(["--disallow-any-expr", "--cache-dir", CACHE, *PLACES])
    if status not in (0, 1):
        print(report, errors, sep="\n", file=sys.stderr)
        return status
    found = sorted(set(untyped(report)))
    for each in found:
        print(f"{each}: select typed columns, col(Model.column) or a record (store/db/records.py)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
