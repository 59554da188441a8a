"""An HTTP proxy that breaks things on purpose, to stand in front of a real object store.

It reads whole requests and answers, so a fault hits exactly the request a test names: an error status,
silence, a reset connection, an answer cut short, a flipped bit. Signed requests pass unharmed: the Host
header is kept.
"""

import http.client
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Fault(StrEnum):
    STATUS_500 = "500"
    STATUS_503 = "503"
    HANG = "hang"  # take the request, say nothing
    RESET = "reset"  # take the request, reset the connection
    TRUNCATE = "truncate"  # promise the whole body, send half of it
    FLIP = "flip"  # one bit of the body is wrong


@dataclass
class _Rule:
    fault: Fault
    method: str
    part: str
    left: int  # how often it still strikes; -1: always


@dataclass
class FaultyProxy:
    """``url`` is what the client is given. Faults strike requests whose method and target match; a
    ``part`` that ends with a blank is the end of the target."""

    url: str
    struck: list[str] = field(default_factory=list)  # "FAULT METHOD target", for assertions
    seen: list[str] = field(default_factory=list)  # "METHOD target" of every request
    _rules: list[_Rule] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)  # lets go of hanging requests

    def inject(self, fault: Fault, *, method: str, part: str = "", times: int = -1) -> None:
        with self._lock:
            self._rules.append(_Rule(fault=fault, method=method, part=part, left=times))

    def heal(self) -> None:
        with self._lock:
            self._rules.clear()

    def _fault_for(self, method: str, target: str) -> Fault | None:
        with self._lock:
            self.seen.append(f"{method} {target}")
            for rule in self._rules:
                if rule.left and rule.method == method and rule.part in f"{target} ":
                    rule.left -= rule.left > 0
                    self.struck.append(f"{rule.fault} {method} {target}")
                    return rule.fault
        return None


@contextmanager
def faulty_proxy(upstream: str) -> Iterator[FaultyProxy]:
    """Run a proxy in front of ``upstream`` (``http://host:port``) until the block is left."""
    proxy = FaultyProxy(url="")
    target = urlsplit(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy._fault_for(self.command, self.path)
            if fault is Fault.RESET:
                _reset(self.connection)
                self.close_connection = True
                return
            if fault is Fault.HANG:
                proxy.released.wait()
                self.close_connection = True
                return
            if fault in (Fault.STATUS_500, Fault.STATUS_503):
                self._answer(int(fault.value), [], b"")
                return
            status, headers, answer = self._forward(body)
            self._answer(status, headers, answer, fault=fault)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 -- http.server's names

        def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
            try:
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() != "connection":
                        connection.putheader(name, value)
                connection.endheaders(body or None)
                response = connection.getresponse()
                return response.status, response.getheaders(), response.read()
            finally:
                connection.close()

        def _answer(
            self, status: int, headers: list[tuple[str, str]], body: bytes, *, fault: Fault | None = None
        ) -> None:
            if fault is Fault.FLIP and body:
                middle = len(body) // 2
                body = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
            self.send_response_only(status)
            length = str(len(body))
            for name, value in headers:
                if name.lower() == "content-length":
                    length = value  # of a HEAD: there is no body to measure
                elif name.lower() not in ("connection", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if fault is Fault.TRUNCATE:
                body, self.close_connection = body[: len(body) // 2], True
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that give up are the point
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _reset(connection: socket.socket) -> None:
    """Close with RST: linger for zero seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
