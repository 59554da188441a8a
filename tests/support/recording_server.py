"""A workspace that writes down what reaches it: ``/seen`` gives all of it as JSON, oldest first.

python recording_server.py PORT

Any other path answers any method with a small page. ``/worker.js`` is a service worker that sends on what it
gets.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"<!doctype html><title>recording</title><h1>recording</h1>"
WORKER = b"""
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(clients.claim()));
self.addEventListener('fetch', (event) => event.respondWith(fetch(event.request)));
"""
seen: list[str] = []


class Recorder(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/seen":
            self.say(json.dumps(seen).encode(), "application/json")
        elif self.path == "/worker.js":
            self.say(WORKER, "text/javascript")
        else:
            seen.append(f"{self.command} {self.path}")
            self.say(PAGE, "text/html")

    def say(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Recorder).serve_forever()
