"""Follow what is written to the etcd of a cluster, and read the few fields of its objects that a witness needs.

etcd numbers every write. A follower that lost its connection, or whose etcd was restarted, goes on with the next
number: it misses nothing and sees nothing twice. Objects are stored as protocol buffers, of which this reads fields by
their numbers.
"""

import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import httpx

_MAGIC = b"k8s\0"
_RETRY_SECONDS = 0.1
Fields = dict[int, list[bytes]]


@dataclass(frozen=True)
class Write:
    """One write of one object. ``value`` None: it was removed."""

    revision: int
    name: str
    value: bytes | None


class EtcdFollower:
    """Passes every write below ``prefix`` to ``on_write``, in order, in a thread of its own.

    ``missed``: why writes were missed, which only happens if etcd has forgotten them.
    """

    def __init__(self, url: str, prefix: str, on_write: Callable[[Write], None]) -> None:
        self._url = url
        self._prefix = prefix
        self._on_write = on_write
        self._closed = threading.Event()
        self.missed: list[str] = []
        self.writes = 0
        self._next = self._read_existing()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more writes. The thread ends with its connection, or with this process."""
        self._closed.set()

    def _read_existing(self) -> int:
        """What is there already, as writes; returns the number to go on with."""
        answer = httpx.post(
            f"{self._url}/v3/kv/range", json=self._range(), timeout=30, trust_env=False
        ).json()
        for found in answer.get("kvs", ()):
            self._take(found, removed=False)
        return int(answer["header"]["revision"]) + 1

    def _follow(self) -> None:
        with httpx.Client(timeout=httpx.Timeout(10, read=None), trust_env=False) as client:
            while not self._closed.is_set():
                try:
                    self._follow_once(client)
                except httpx.HTTPError:
                    self._closed.wait(_RETRY_SECONDS)

    def _follow_once(self, client: httpx.Client) -> None:
        asked = {"create_request": {**self._range(), "start_revision": str(self._next)}}
        with client.stream("POST", f"{self._url}/v3/watch", json=asked) as answer:
            for line in answer.iter_lines():
                result = json.loads(line).get("result") or {}
                if int(result.get("compact_revision") or 0):
                    self.missed.append(f"writes {self._next} to {result['compact_revision']} were missed")
                    self._next = int(result["compact_revision"])
                    return
                for event in result.get("events") or ():
                    if self._closed.is_set():
                        return
                    self._take(event["kv"], removed=event.get("type") == "DELETE")
                    self._next = int(event["kv"]["mod_revision"]) + 1

    def _take(self, found: Any, *, removed: bool) -> None:
        name = b64decode(found["key"]).decode().removeprefix(self._prefix)
        value = None if removed else b64decode(found["value"])
        self.writes += 1
        self._on_write(Write(int(found["mod_revision"]), name, value))

    def _range(self) -> dict[str, str]:
        first = self._prefix.encode()
        end = first[:-1] + bytes([first[-1] + 1])
        return {"key": b64encode(first).decode(), "range_end": b64encode(end).decode()}


def read_object(value: bytes) -> Fields:
    """The fields of a stored object: 1 metadata, 2 spec, 3 status."""
    assert value.startswith(_MAGIC), value[:20]
    return read_fields(read_fields(value[len(_MAGIC) :])[2][0])


def read_fields(data: bytes) -> Fields:
    """The fields of a message by their numbers. A number is kept as its bytes."""
    found: Fields = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        match tag & 7:
            case 0:
                begin = position
                _, position = _varint(data, position)
            case 1:
                begin, position = position, position + 8
            case 2:
                length, begin = _varint(data, position)
                position = begin + length
            case 5:
                begin, position = position, position + 4
            case kind:
                raise ValueError(f"unknown kind of field: {kind}")
        found.setdefault(tag >> 3, []).append(data[begin:position])
    return found


def text(fields: Fields, number: int) -> str:
    return fields[number][0].decode() if number in fields else ""


def message(fields: Fields, number: int) -> Fields:
    return read_fields(fields[number][0]) if number in fields else {}


def messages(fields: Fields, number: int) -> Iterable[Fields]:
    return map(read_fields, fields.get(number, ()))


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
