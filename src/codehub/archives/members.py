"""Check every member of a tar stream before ``tar`` extracts it.

An archive is untrusted input: anyone who can write to the bucket chooses the bytes. GNU tar already refuses
``..`` and absolute names and delays suspicious links, but a refusal that depends on one program's version is
not a rule. ``MemberCheck`` is fed the stream piece by piece and raises ``HostileArchive`` for

- absolute names, names with ``..``, hardlinks to such names,
- members (and hardlink targets) *below* a name that the same archive made a symbolic link,
- devices and every other kind that a CodeHub archive never holds.

Symbolic links themselves may point anywhere: an ordinary virtual environment has absolute ones. Nothing here
follows them.

Two parsers that read the same bytes differently are a known class of vulnerabilities, so this one accepts a
narrow language: exactly what ``tar --format=posix`` writes, plus GNU long names. Where a header offers
several names (ustar field, pax ``path``, GNU long name, sparse name) each of them must be safe, so it does
not matter which one tar uses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from zlib import adler32

BLOCK = 512
MAX_EXTENSION_BYTES = 16 * 1024 * 1024
"""Maximum of one pax or long-name record, which is held in memory: more than the xattrs of a file."""

_MAX_CLEAN_FOLDERS = 10_000
_ZERO = bytes(BLOCK)
_REGULAR = (b"0", b"\0", b"7")
_SYMLINK, _HARDLINK, _DIRECTORY, _FIFO = b"2", b"1", b"5", b"6"
_PAX, _LONG_NAME, _LONG_LINK = b"x", b"L", b"K"
_KIND_NAMES = {b"3": "a character device", b"4": "a block device", b"S": "an old-style sparse file"}


class HostileArchive(Exception):
    """The archive has a member that is never extracted."""


@dataclass(frozen=True)
class Member:
    """One member that passed the check. ``at``: where its data begins in the stream, and ``size`` how long it is."""

    name: bytes
    kind: bytes
    link: bytes
    mode: int
    at: int
    size: int
    pax: dict[bytes, bytes]
    mtime: int


class MemberCheck:
    """Push parser of a tar stream: ``feed`` any slices, then ``finish``.

    Both raise ``HostileArchive``. ``on_member`` is called for each member that passed.
    """

    def __init__(self, on_member: Callable[[Member], None] | None = None) -> None:
        self._on_member = on_member
        self._pax_records: dict[bytes, bytes] = {}
        self._at = 0  # where the block that is looked at ends
        self.files = 0
        self.bytes = 0
        self._pending = b""  # an incomplete header block, or the received part of an extension
        self._skip = 0  # bytes of data and padding still to skip
        self._wanted = BLOCK  # size of the next header block or extension
        self._extension: Callable[[bytes], None] | None = None
        self._extension_size = 0
        self._names: list[bytes] = []  # all names of the next header
        self._links: list[bytes] = []
        self._size: int | None = None
        self._symlinks: set[bytes] = set()
        self._clean_folders: set[bytes] = set()  # known to be below no link
        self._clean_parent: bytes | None = None  # the last folder checked: neighbours share it
        self.ended = False  # the end mark was read

    def feed(self, data: bytes) -> None:
        """Check the next bytes. Raises ``HostileArchive``."""
        begin = self.bytes
        self.bytes += len(data)
        position, length = 0, len(data)
        while position < length:
            if self.ended:
                if data.count(0, position) != length - position:
                    raise HostileArchive("data after the end of the archive")
                return
            if self._skip:
                step = min(self._skip, length - position)
                self._skip -= step
                position += step
                continue
            if not self._pending and length - position >= self._wanted:
                piece = data[position : position + self._wanted]
                position += self._wanted
            else:
                step = min(self._wanted - len(self._pending), length - position)
                self._pending += data[position : position + step]
                position += step
                if len(self._pending) < self._wanted:
                    return
                piece, self._pending = self._pending, b""
            self._at = begin + position
            self._complete(piece)

    def finish(self) -> None:
        """Check that the stream ended at an end mark. Raises ``HostileArchive``."""
        if not self.ended:
            raise HostileArchive("the archive ends in the middle")

    def _complete(self, piece: bytes) -> None:
        if self._extension is not None:
            extension, self._extension = self._extension, None
            self._wanted = BLOCK
            extension(piece[: self._extension_size])
        elif piece == _ZERO:
            self.ended = True
        else:
            self._header(piece)

    def _header(self, block: bytes) -> None:
        _verify_checksum(block)
        kind = block[156:157]
        size = parse_number(block[124:136])
        if kind in (_PAX, _LONG_NAME, _LONG_LINK):
            self._expect_extension(kind, size)
            return
        self._names.append(ustar_name(block))
        if self._size is not None:
            size = self._size
        for name in self._names:
            self._verify_name(name)
        self._verify_kind(kind, block, size=size)
        self._skip = -(-size // BLOCK) * BLOCK
        if self._on_member is not None:
            self._on_member(self._member(block, kind, size))
        self._names, self._links, self._size = [], [], None

    def _member(self, block: bytes, kind: bytes, size: int) -> Member:
        """The member as GNU tar reads it: an extended header goes before the plain one."""
        pax, self._pax_records = self._pax_records, {}
        link = self._links[0] if self._links else _until_nul(block[157:257])
        return Member(
            name=pax.get(b"GNU.sparse.name") or pax.get(b"path") or self._names[0],
            kind=kind,
            link=pax.get(b"linkpath", link),
            mode=_shown_number(block[100:108]) & 0o7777,
            at=self._at,
            size=size,
            pax=pax,
            mtime=_shown_number(block[136:148]),
        )

    def _expect_extension(self, kind: bytes, size: int) -> None:
        if not 0 < size <= MAX_EXTENSION_BYTES:
            raise HostileArchive(f"an extended header of {size} bytes")
        handlers = {_PAX: self._pax, _LONG_NAME: self._long_name, _LONG_LINK: self._long_link}
        self._extension = handlers[kind]
        self._extension_size = size
        self._wanted = -(-size // BLOCK) * BLOCK

    def _long_name(self, value: bytes) -> None:
        self._names.append(_until_nul(value))

    def _long_link(self, value: bytes) -> None:
        self._links.append(_until_nul(value))

    def _pax(self, records: bytes) -> None:
        plain = b"path=" not in records and b"size=" not in records and b"name=" not in records
        if plain and self._on_member is None:
            return  # times only, as nearly always: no name and no size, however it is parsed
        position = 0
        while position < len(records):
            space = records.find(b" ", position, position + 20)
            digits = records[position:space]
            if space < 0 or not digits.isdigit():
                raise HostileArchive("a malformed extended header")
            end = position + int(digits)
            keyword, equals, value = records[space + 1 : end - 1].partition(b"=")
            if end > len(records) or end <= space or records[end - 1 : end] != b"\n" or not equals:
                raise HostileArchive("a malformed extended header")
            self._pax_record(keyword, value)
            position = end

    def _pax_record(self, keyword: bytes, value: bytes) -> None:
        if self._on_member is not None:
            self._pax_records[keyword] = value
        if keyword in (b"path", b"GNU.sparse.name"):
            self._names.append(value)
        elif keyword == b"linkpath":
            self._links.append(value)
        elif keyword == b"size":
            if not value.isdigit() or len(value) > 19:
                raise HostileArchive("a malformed size")
            self._size = int(value)

    def _verify_kind(self, kind: bytes, block: bytes, *, size: int) -> None:
        if kind in _REGULAR:
            self.files += 1
            return
        if size:
            # Programs disagree on whether such a member has data, so it must have none.
            raise HostileArchive(f"data where none belongs, in {_show(self._names[0])}")
        if kind == _DIRECTORY:
            return
        if kind == _SYMLINK:
            self._remember_links()
        elif kind == _HARDLINK:
            self._verify_hardlink(block)
        elif kind != _FIFO:
            what = _KIND_NAMES.get(kind, f"a member of kind {kind!r}")
            raise HostileArchive(f"{what}: {_show(self._names[0])}")
        self.files += 1

    def _verify_hardlink(self, block: bytes) -> None:
        self._links.append(_until_nul(block[157:257]))
        for target in self._links:
            self._verify_name(target)
            if _plain(target) in self._symlinks:
                self._remember_links()  # a hardlink to a symbolic link is a symbolic link

    def _remember_links(self) -> None:
        links = {_plain(name) for name in self._names}
        self._symlinks |= links
        self._clean_parent = None
        if links & self._clean_folders:  # a folder became a link
            self._clean_folders.clear()

    def _verify_name(self, name: bytes) -> None:
        parent, _, last = name.rstrip(b"/").rpartition(b"/")
        if last == b".." or b"\0" in name or name[:1] == b"/":
            raise HostileArchive(f"an unsafe name: {_show(name)}")
        if parent == self._clean_parent:
            return
        parts = parent.split(b"/")
        if b".." in parts:
            raise HostileArchive(f"an unsafe name: {_show(name)}")
        if self._symlinks:
            self._verify_folders(_plain(parent), name)
        self._clean_parent = parent

    def _verify_folders(self, folder: bytes, name: bytes) -> None:
        """Raise if any folder on the way is a symbolic link.

        Checks upwards until a folder already checked: a tree of a thousand levels has a thousand folders, and
        each is checked once.
        """
        if len(self._clean_folders) > _MAX_CLEAN_FOLDERS:
            self._clean_folders.clear()
        while folder and folder not in self._clean_folders:
            if folder in self._symlinks:
                raise HostileArchive(f"a member behind a symbolic link: {_show(name)}")
            self._clean_folders.add(folder)
            folder = folder.rpartition(b"/")[0]


def _verify_checksum(block: bytes) -> None:
    """Verify the header's checksum: the sum of all bytes, its own field as blanks.

    Adler-32 keeps exactly that sum (plus one) in its lower half, as long as it stays below 65521, which 256
    bytes do: an order of magnitude faster than ``sum`` in code that runs twice per file.
    """
    blanked = block[:148] + b"        " + block[156:]
    total = (adler32(blanked[:256]) & 0xFFFF) + (adler32(blanked[256:]) & 0xFFFF) - 2
    if total != parse_number(block[148:156]):
        raise HostileArchive("a header with a wrong checksum")


def parse_number(field: bytes) -> int:
    """Parse an octal or base-256 field, strictly."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.rstrip(b" \0").lstrip(b" ")
    try:
        # int() alone would also take "+7", "1_0" and "0o7", which tar reads otherwise.
        return int(digits, 8) if digits.isdigit() else _blank(digits)
    except ValueError as error:
        raise HostileArchive("a malformed number in a header") from error


def _shown_number(field: bytes) -> int:
    """Parse a field that is only shown to people: what a restore would accept is no reason to refuse."""
    try:
        return parse_number(field)
    except HostileArchive:
        return 0


def _blank(digits: bytes) -> int:
    if digits:
        raise ValueError(digits)
    return 0


def ustar_name(block: bytes) -> bytes:
    name = _until_nul(block[:100])
    # Only POSIX ustar has a prefix; old GNU headers ("ustar  ") have other fields there.
    if block[257:263] == b"ustar\0" and block[345]:
        return _until_nul(block[345:500]) + b"/" + name
    return name


def _until_nul(value: bytes) -> bytes:
    return value.split(b"\0", 1)[0]


def _plain(name: bytes) -> bytes:
    return b"/".join(part for part in name.split(b"/") if part not in (b"", b"."))


def _show(name: bytes) -> str:
    return name.decode(errors="backslashreplace")[:200]
