"""Generate ids: ``uuid7`` to sort by creation, ``uuid4`` where not guessable."""

import os
import time
from uuid import UUID


def uuid7() -> UUID:
    """Return a time-ordered UUID (RFC 9562, version 7): 48 bits of milliseconds.

    The rest is random.
    """
    millis = time.time_ns() // 1_000_000
    value = (millis & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
