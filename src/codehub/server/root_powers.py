"""Check which capabilities root has: in a container it may have few.

As root the embedded PostgreSQL runs as another user (it refuses root). Directories can then be closed to
everybody only if that user can be given the capability to pass through them, as ``launch.py`` does.
"""

import os

_DAC_OVERRIDE, _DAC_READ_SEARCH, _SETPCAP = 1 << 1, 1 << 2, 1 << 8


def may_lend_search() -> bool:
    """Whether a child with another user can be given the capability to pass through."""
    held = _effective_capabilities()
    return bool(held & _SETPCAP) and bool(held & (_DAC_OVERRIDE | _DAC_READ_SEARCH))


def private_mode() -> int:
    """Mode of CodeHub's directories: 0700, or passable if the database needs that."""
    return 0o711 if os.geteuid() == 0 and not may_lend_search() else 0o700


def _effective_capabilities() -> int:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            return next(int(line.split()[1], 16) for line in status if line.startswith("CapEff:"))
    except (OSError, StopIteration, ValueError):
        return 0
