"""Compress tar's output piece by piece, keeping every core busy.

    tar ──pipe──► one thread that only feeds zstd ──► zstd and its threads ──► pieces, a few of them waiting

The thread does nothing else, so zstd's threads never wait for a hash or for the store, and it waits only
while the queue of pieces is full.
"""

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing

import zstandard

from codehub.archives.read_ahead import read_ahead
from codehub.archives.tarball import PIPE_BYTES, Tar

LEVEL = 3
MAX_COMPRESSION_THREADS = 8
COMPRESSION_JOB_BYTES = 2 * 1024 * 1024
"""Input of one zstd job. zstd's default, 8 MiB, costs 57 MiB of memory per thread; this costs 17 MiB and compresses
no worse. Half of it would compress 3 % worse and take longer: every job first reads again the last 256 KiB of the
one before."""

_PIECE_BYTES = 2 * 1024 * 1024
_PIECES_AHEAD = 3


class Packer:
    """Compresses the output of a running tar."""

    def __init__(self, tar: Tar) -> None:
        self.bytes_read = 0
        self._tar = tar

    def pieces(self) -> AbstractAsyncContextManager[AsyncGenerator[bytes, None]]:
        """Yield the compressed pieces in order; raises at the end if tar failed."""
        compressed = self._compress()
        return aclosing(
            read_ahead(lambda: next(compressed, b""), unblock=self._tar.kill, ahead=_PIECES_AHEAD)
        )

    def _compress(self) -> Iterator[bytes]:
        chunker = _new_compressor().chunker(chunk_size=_PIECE_BYTES)
        descriptor = self._tar.pipe.fileno()
        buffer = memoryview(bytearray(PIPE_BYTES))  # reused: zstd keeps no reference to its input
        while length := os.readv(descriptor, [buffer]):
            self.bytes_read += length
            yield from chunker.compress(buffer[:length])
        self._tar.wait()
        yield from chunker.finish()  # type: ignore[no-untyped-call]  # its stub has no annotation


def _new_compressor() -> zstandard.ZstdCompressor:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # With threads of its own zstd reads contiguous input; without, a ring buffer in two parts, for a tenth more CPU.
    # That is worth a copy of every byte even where tar uses a core.
    workers = min(available, MAX_COMPRESSION_THREADS)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL,
        threads=workers if workers > 1 else 0,
        job_size=COMPRESSION_JOB_BYTES,
        write_content_size=False,
    )
    return zstandard.ZstdCompressor(compression_params=parameters)
