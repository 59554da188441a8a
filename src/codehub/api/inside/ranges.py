"""Read one byte range of a request, and say which part of a file is answered, and as what. Pure."""

import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import PurePosixPath
from urllib.parse import quote

from codehub.api.problems import Invalid, Refused
from codehub.api.schemas.files import FileEntry

_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{0,15})")


@dataclass(frozen=True)
class ByteRange:
    """``length`` negative: to the end."""

    offset: int = 0
    length: int = -1

    @property
    def is_whole(self) -> bool:
        return self.offset == 0 and self.length < 0


def find_range(header: str | None) -> ByteRange:
    """The range that is asked for; the whole file without one. Several, and ranges from the end, are refused."""
    if header is None:
        return ByteRange()
    found = _RANGE.fullmatch(header.strip())
    if found is None:
        raise Invalid("Range", "one range: bytes=0-99 or bytes=100-")
    offset = int(found[1])
    if not found[2]:
        return ByteRange(offset)
    if int(found[2]) < offset:
        raise Invalid("Range", "it ends before it begins")
    return ByteRange(offset, int(found[2]) - offset + 1)


def content_headers(asked: ByteRange, entry: FileEntry, length: int) -> tuple[int, dict[str, str]]:
    """Status and headers of an answer with ``length`` bytes of a file. What ``inside`` says must fit the request."""
    wanted = max(entry.size - asked.offset, 0)
    if asked.length >= 0:
        wanted = min(wanted, asked.length)
    if length != wanted:
        raise Refused("unavailable", "The workspace answered something else.")
    headers = {
        "Content-Length": str(length),
        "Accept-Ranges": "bytes",
        "Last-Modified": entry.modified_at.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        # Never shown as a page of this site, whatever the workspace has put into it.
        "Content-Disposition": "attachment",
    }
    if asked.is_whole:
        return HTTPStatus.OK, headers
    if length == 0:
        raise Invalid("Range", f"the file has {entry.size} bytes")
    headers["Content-Range"] = f"bytes {asked.offset}-{asked.offset + length - 1}/{entry.size}"
    return HTTPStatus.PARTIAL_CONTENT, headers


def tar_attachment(path: str) -> str:
    """``Content-Disposition`` of a directory: named after it, in ASCII for old clients and as it is."""
    stem = PurePosixPath(path).name
    if stem in ("", ".."):
        stem = "home"
    return file_attachment(f"{stem}.tar")


def file_attachment(name: str) -> str:
    """``Content-Disposition`` of a file: never shown as a page of this site, whatever is in it."""
    stem, _, suffix = name.rpartition(".")
    plain_stem, plain_suffix = _in_ascii(stem), _in_ascii(suffix)
    plain = plain_stem or plain_suffix or "file"
    if stem and plain_suffix:
        plain = f"{plain_stem or 'files'}.{plain_suffix}"
    encoded = quote(name.encode("utf-8", "replace"), safe="")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"


def _in_ascii(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", part).strip("._")
