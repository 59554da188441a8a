"""A registry with one image of one layer, on this machine: for pulling without the Internet."""

import gzip
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class TinyRegistry:
    def __init__(self, layer: bytes, config: dict[str, Any], host: str) -> None:
        packed = gzip.compress(layer, mtime=0)
        described = {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
        document = json.dumps(described).encode()
        self.requests: Counter[str] = Counter()
        self.blobs = {_digest(document): document, _digest(packed): packed}
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": {"mediaType": _CONFIG, "size": len(document), "digest": _digest(document)},
                "layers": [{"mediaType": _LAYER, "size": len(packed), "digest": _digest(packed)}],
            }
        ).encode()
        self.layer_digest = _digest(packed)
        self.host, self.port = host, 0

    def reference(self, name: str) -> str:
        return f"{self.host}:{self.port}/{name}:1"

    def answer(self, path: str) -> tuple[bytes, str] | None:
        self.requests[path] += 1
        if path == "/v2/":
            return b"{}", "application/json"
        kind, _, last = path.rpartition("/")
        if kind.endswith("/manifests"):
            return self.manifest, _MANIFEST
        blob = self.blobs.get(last)
        return None if blob is None else (blob, "application/octet-stream")


@contextmanager
def run_registry(layer: bytes, config: dict[str, Any], *, host: str = "127.0.0.1") -> Iterator[TinyRegistry]:
    registry = TinyRegistry(layer, config, host)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = registry.answer(self.path)
            body, kind = found or (b"{}", "application/json")
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.send_header("Docker-Content-Digest", _digest(body))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 -- the name is http.server's

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    registry.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
