"""Feed tar with the stream of an archive, every member checked first."""

import hashlib
import io
from contextlib import suppress
from typing import IO, Any, cast

import zstandard

from codehub.archives.generation import refused
from codehub.archives.members import HostileArchive, MemberCheck
from codehub.archives.meta import ArchiveMeta
from codehub.archives.tarball import Tar
from codehub.domain.errors import EffectError, FailureCode

_OUTPUT_BYTES = 1024 * 1024


class TarWriter:
    """Checks the bytes of a tar stream and writes them to tar. Blocking."""

    def __init__(self, tar: Tar, meta: ArchiveMeta) -> None:
        self.check = MemberCheck()
        self._tar = tar
        self._meta = meta
        self._tar_exited = False
        self._fault: Exception | None = None

    def take(self, data: bytes) -> None:
        """Check decompressed bytes and write them to tar."""
        self.check.feed(data)
        if self.check.bytes > self._meta.uncompressed_bytes:
            raise HostileArchive("more data than its meta says")
        if self._tar_exited:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[self._tar.pipe.write(view) :]
        except BrokenPipeError:
            # tar exits at the end mark and does not read the padding behind it. Anywhere else it exited because of
            # an error, which its exit code shows later.
            if not self.check.ended:
                raise
            self._tar_exited = True

    def feed_stream(self, data: bytes) -> None:
        """Take a piece; an error is kept for ``finish_tar``, which asks tar first."""
        if self._fault is None:
            try:
                self.take(data)
            except (HostileArchive, OSError) as error:
                self._fault = error

    def finish_tar(self, key: str) -> None:
        """Raise unless tar is content and the stream was whole. Call it after the last piece."""
        if isinstance(self._fault, HostileArchive | zstandard.ZstdError):
            raise refused(key, self._fault) from self._fault
        with suppress(BrokenPipeError):
            self._tar.pipe.close()
        try:
            self._tar.wait()
        except EffectError as error:
            raise _no_space(error) or error from error
        if self._fault is not None:  # tar exited with 0 before its input ended
            raise refused(key, self._fault) from self._fault
        try:
            self.check.finish()
        except HostileArchive as error:
            raise refused(key, error) from error


class Unpacker(TarWriter):
    """Hashes, decompresses and checks pieces of format 1, and writes them to tar. Blocking.

    Every piece goes to both ``hash`` and ``feed``. An error on the way is kept and the rest is still hashed,
    because only the checksum shows whether the archive is damaged or the error is our own.
    """

    def __init__(self, tar: Tar, meta: ArchiveMeta) -> None:
        super().__init__(tar, meta)
        self.bytes = 0
        self._digest = hashlib.sha256()
        # Passes decompressed bytes to ``self.take`` in bounded pieces, however well they compress.
        self._decompressor = zstandard.ZstdDecompressor().stream_writer(
            cast(IO[bytes], _Sink(self)), write_size=_OUTPUT_BYTES
        )

    def hash(self, data: bytes) -> None:
        """Hash a piece. Safe beside ``feed`` in another thread: the two share nothing."""
        self._digest.update(data)

    def feed(self, data: bytes) -> None:
        """Decompress, check and extract a piece. Errors are kept for ``finish``."""
        self.bytes += len(data)
        if self._fault is not None:
            return
        try:
            self._decompressor.write(data)
        except (zstandard.ZstdError, HostileArchive, OSError) as error:
            self._fault = error

    def finish(self, key: str) -> None:
        """Raise unless the files are exactly those archived. Call it after the last piece."""
        if self._digest.hexdigest() != self._meta.sha256:
            raise EffectError(
                FailureCode.CHECKSUM_MISMATCH,
                "The archive is damaged: its checksum does not match. The volume was left as it was.",
                archive_key=key,
                detail="checksum mismatch",
            )
        self.finish_tar(key)


class _Sink(io.RawIOBase):
    """The file-like object that zstandard writes to."""

    def __init__(self, unpacker: Unpacker) -> None:
        self._unpacker = unpacker

    def write(self, data: Any, /) -> int:
        self._unpacker.take(data)
        return len(data)


def _no_space(error: EffectError) -> EffectError | None:
    """Return ``NO_SPACE`` if tar hit a full disk: another process was writing too."""
    if not any("No space left on device" in line for line in error.context.get("errors", ())):
        return None
    return EffectError(
        FailureCode.NO_SPACE,
        "The disk became full during the restore. The volume was left as it was.",
        action="restore",
    )
