"""Columns of numbers, as manifests and the file index store them.

Little-endian, all first bytes before all second bytes: high bytes are mostly equal and compress to nothing.
"""

from array import array
from collections.abc import Sequence

from codehub.archives.members import HostileArchive


def encode_column(values: "array[int]") -> bytes:
    """Encode numbers of one width."""
    raw, width = values.tobytes(), values.itemsize
    return b"".join(raw[place::width] for place in range(width))


def fill_column(column: "array[int]", raw: bytes, at: int, count: int) -> int:
    """Fill an empty column from ``raw``; return where it ends. Raises ``HostileArchive``."""
    width = column.itemsize
    end = at + count * width
    if end > len(raw):
        raise HostileArchive("a manifest that claims more than it has")
    plain = bytearray(count * width)
    for place in range(width):
        plain[place::width] = raw[at + place * count : at + (place + 1) * count]
    column.frombytes(bytes(plain))
    return end


def to_columns(columns: Sequence["array[int]"]) -> bytes:
    """Encode columns of equal length, one after the other."""
    return b"".join(encode_column(column) for column in columns)


def from_columns(columns: Sequence["array[int]"], raw: bytes, count: int) -> bool:
    """Fill empty columns with ``count`` numbers each; False unless ``raw`` holds exactly these."""
    if len(raw) != count * sum(column.itemsize for column in columns):
        return False
    at = 0
    for column in columns:
        at = fill_column(column, raw, at, count)
    return True
