"""Index an archive of format 1: ``python -m codehub.archives.indexer FILE BYTES`` reads it from standard input.

A process of its own, with limits of the kernel on memory, time and the size of what it writes: the bytes are not
trusted, and the API must neither wait for them nor grow with them. It holds no key of the store and no connection.
What it refuses, it tells in one line on standard output and ends with 1.
"""

import io
import os
import resource
import sys
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from codehub.archives.members import HostileArchive, MemberCheck
from codehub.archives.tar_index import IndexWriter

MEMORY_BYTES = 1024 * 1024 * 1024
CPU_SECONDS = 900
INDEX_BYTES = 1024 * 1024 * 1024
_READ_BYTES = 1024 * 1024


def main() -> int:
    _limit()
    file, expected_bytes = Path(sys.argv[1]), int(sys.argv[2])
    try:
        _index(file, sys.stdin.buffer, expected_bytes=expected_bytes)
    except (HostileArchive, zstandard.ZstdError) as error:
        sys.stdout.write(f"it holds {error}" if isinstance(error, HostileArchive) else str(error))
        return 1
    except (MemoryError, OSError) as error:
        sys.stdout.write(f"it is too large to be looked into ({type(error).__name__})")
        return 1
    return 0


def _index(file: Path, source: IO[bytes], *, expected_bytes: int) -> None:
    writer = IndexWriter(file)
    check = MemberCheck(writer.add)
    sink = cast(IO[bytes], _Sink(check, expected_bytes))
    decompressor = zstandard.ZstdDecompressor().stream_writer(sink, write_size=_READ_BYTES)
    while piece := source.read(_READ_BYTES):
        decompressor.write(piece)
    check.finish()
    writer.finish()


class _Sink(io.RawIOBase):
    """What zstandard writes to, in bounded pieces however well they compress."""

    def __init__(self, check: MemberCheck, expected_bytes: int) -> None:
        self._check = check
        self._expected_bytes = expected_bytes

    def write(self, data: Any, /) -> int:
        self._check.feed(data)
        if self._check.bytes > self._expected_bytes:
            raise HostileArchive("more data than its meta says")
        return len(data)


def _limit() -> None:
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, INDEX_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    os.nice(5)


if __name__ == "__main__":
    sys.exit(main())
