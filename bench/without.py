"""The proxy with one fast path taken out: ``python -m bench.without PATH PORT NUMBERS``.

The path is cut out of the source while it is imported, so nothing in the package knows of this and what is left runs
as if it had been written so. A cut whose text is not found ends the program: it would measure nothing.
"""

import importlib.util
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

WHOLE = "whole"  # the proxy as it is
NOTHING = "nothing"  # the same once more, to see what the measurement itself adds


@dataclass(frozen=True)
class Cut:
    """One replacement in the source of one module."""

    module: str
    old: str
    new: str


_CONNECTION = "codehub.proxy.client_connection"
_ADMISSION = "codehub.proxy.access.admission_cache"
_EXCHANGE = "codehub.proxy.upstream.exchange"
_RESPONSE = "codehub.proxy.http1.response"
_POOL = "codehub.proxy.upstream.pool"
_ENGINE = "codehub.proxy.engine"
_FRAMES = "codehub.proxy.http1.websocket"
_CACHE = "codehub.proxy.access.cache"

_NO_RELAY = Cut(_ENGINE, "Relay.open(self.loop) if settings.use_relay else None", "None")

_NO_SINGLE_WRITE = Cut(_EXCHANGE, "if not (self._simple and self._relay_at_once(data)):", "if True:")

CUTS: Mapping[str, Sequence[Cut]] = {
    WHOLE: [],
    NOTHING: [],
    "directory cache": [Cut(_CACHE, "if generation == self._generation:", "if False:")],
    "upstream pool": [Cut(_POOL, "if len(idle) >= self._size:", "if True:")],
    "no task for a known request": [
        Cut(
            _CONNECTION,
            "recalled = engine.admission.recall(request, route, identity, self._loop.time())",
            "recalled = None",
        )
    ],
    "workspace ids": [Cut("codehub.proxy.routing", "@lru_cache(maxsize=4096)\n", "")],
    "admission cache": [
        Cut(_CONNECTION, "if CachedAdmission.may_be_kept(request, route, scheme=engine.scheme):", "if False:")
    ],
    "four admissions a connection": [
        Cut(_CONNECTION, "MAX_CACHED_ADMISSIONS = 4", "MAX_CACHED_ADMISSIONS = 1")
    ],
    "exchange used again": [
        Cut(_ADMISSION, "if head == self._last_head:", "if False:"),
        Cut(_ADMISSION, "self._last_head, self._last = head, exchange", "pass"),
    ],
    "response heads": [  # and the single write, which needs them
        Cut(_RESPONSE, "    response = _head_cache.get(head)\n    if", "    response = None\n    if"),
        Cut(_RESPONSE, 'if len(head) <= _MAX_HEAD and b"set-cookie" not in response.fields:', "if False:"),
        _NO_SINGLE_WRITE,
    ],
    "one write for a small response": [_NO_SINGLE_WRITE],
    "relay": [_NO_RELAY],
    "relay and small frames": [
        _NO_RELAY,
        Cut(
            _FRAMES, "if self.between_messages and size >= 2 and 0x80 <= data[0] & 0x8F <= 0x82:", "if False:"
        ),
    ],
}


class _CuttingLoader(SourceFileLoader):
    """Loads a module from its source with cuts."""

    def __init__(self, name: str, path: str, cuts: Sequence[Cut]) -> None:
        super().__init__(name, path)
        self._cuts = cuts

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        for cut in self._cuts:
            if source.count(cut.old) != 1:
                raise SystemExit(f"{fullname} does not contain exactly once: {cut.old}")
            source = source.replace(cut.old, cut.new)
        return compile(source, self.path, "exec")


class _CuttingFinder(MetaPathFinder):
    def __init__(self, cuts: Sequence[Cut]) -> None:
        self._cuts = cuts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        cuts = [cut for cut in self._cuts if cut.module == fullname]
        found = PathFinder.find_spec(fullname, path, target) if cuts else None
        if found is None or found.origin is None:
            return None
        loader = _CuttingLoader(fullname, found.origin, cuts)
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader)


def main() -> None:
    name, port, numbers = sys.argv[1:]
    sys.meta_path.insert(0, _CuttingFinder(CUTS[name]))
    from codehub.server.proxy import process  # after the cuts are in place

    listening = socket.create_server(("127.0.0.1", int(port)), backlog=1024)
    sys.argv = [sys.argv[0], str(listening.detach()), numbers]
    process.main()


if __name__ == "__main__":
    main()
