"""Parse server-sent events from the bytes of a response.

Lines end with LF, CR or CRLF only: ``str.splitlines`` would also split at U+2028 and others, which may occur in a
memo.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the very end may be the first half of a CRLF


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    data: str
    id: str | None = None


def parse_events(pieces: Iterable[bytes]) -> Iterator[Event]:
    """Yield the complete events of a stream; drop one that was cut off."""
    name, event_id, data = "", None, list[str]()
    for line in _lines(pieces):
        if not line:
            if data:
                yield Event(name or "message", "\n".join(data), event_id)
            name, event_id, data = "", None, []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "id":
                event_id = value
            case "data":
                data.append(value)
            case _:
                pass  # comments (no name before the colon), retry, and unknown fields


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *complete, rest = _LINE_END.split(rest + piece)
        for line in complete:
            yield line.decode("utf-8", "replace")
