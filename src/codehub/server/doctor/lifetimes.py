"""End-of-support dates of Python and PostgreSQL, as announced by their makers.

Shown by ``codehub doctor``. Known vulnerabilities of packages are checked by ``make audit``.
"""

from datetime import date

POSTGRESQL = {
    15: date(2027, 11, 11),
    16: date(2028, 11, 9),
    17: date(2029, 11, 8),
    18: date(2030, 11, 14),
}
PYTHON = {
    (3, 11): date(2027, 10, 31),
    (3, 12): date(2028, 10, 31),
    (3, 13): date(2029, 10, 31),
    (3, 14): date(2030, 10, 31),
}


def mended_until(end: date | None, *, today: date) -> str:
    """Describe until when a version is supported. ``end`` None: not known here."""
    if end is None:
        return "end of life not known to this CodeHub"
    return f"mended until {end:%Y-%m}" if today <= end else f"NOT mended since {end:%Y-%m}"
