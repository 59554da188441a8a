"""Read amounts as the API server writes them: ``10Gi``, ``512M``, ``1073741824``. Pure."""

_UNITS = {
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
}


def find_bytes(text: object) -> int | None:
    """A number of bytes; None: there is none, or it is written in a way we do not know."""
    number = str(text or "").rstrip("KMGTPik")
    unit = str(text or "")[len(number) :]
    return int(number) * (_UNITS[unit] if unit else 1) if number.isdigit() and unit in {"", *_UNITS} else None
