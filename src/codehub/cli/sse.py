"""Server-sent events, read from the bytes of a response.

Lines end with LF, CR or CRLF and with nothing else: splitting text the way Python does would also cut at
U+2028 and its kin, which may stand in the middle of a person's memo.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the very end may be the first half of a CRLF


@dataclass(frozen=True)
class Event:
    name: str
    data: str
    id: str | None = None


def parse_events(pieces: Iterable[bytes]) -> Iterator[Event]:
    """The complete events in a stream; one that was cut off is none."""
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
                pass  # comments (no name before the colon), retry, and what is not invented yet


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *complete, rest = _LINE_END.split(rest + piece)
        for line in complete:
            yield line.decode("utf-8", "replace")
