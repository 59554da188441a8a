"""Which seeds a run has."""

DEFAULT = "0-199"


def parse_seeds(text: str) -> range:
    """``17`` or ``0-199``."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
