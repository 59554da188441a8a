"""Serve the dashboard: files of ``static/``, and ``index.html`` for its routes.

The dashboard is a single-page application, so any path that is neither a file nor the API's gets
``index.html``. Files are read once and looked up in a dictionary: path traversal is impossible. Names of built
assets carry a hash of their content, so browsers may cache them for ever; the page is revalidated each time.
"""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request, Response

from codehub.api.methods import EVERY_ADDRESS, FILES, methods_at
from codehub.api.problems import Refused

STATIC = Path(__file__).with_name("static")
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_NOT_PAGES = ("/api", "/w", "/health", "/metrics", "/assets", "/_codehub")
_COMPRESSIBLE = ("text/", "application/javascript", "application/json", "image/svg+xml")
_PLAIN_PAGE = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>CodeHub</title>
<h1>CodeHub</h1>
<p>The API answers under <a href="/api/v1/openapi.json">/api/v1</a>.
The dashboard is not part of this build.</p>
</html>
"""


@dataclass(frozen=True)
class File:
    """A static file in memory, with its gzip form where that is smaller."""

    content: bytes
    packed: bytes | None
    media_type: str
    cache: str
    etag: str


def install(app: FastAPI, *, directory: Path = STATIC) -> None:
    """Add the catch-all route that serves ``directory``."""
    files = _read(directory)
    first_page = files.get("/index.html") or _file("/index.html", _PLAIN_PAGE)

    app.state.is_file_or_page = lambda address: address in files or _is_page(address)

    @app.api_route(EVERY_ADDRESS, methods=sorted(FILES), include_in_schema=False)
    async def page(request: Request, path: str) -> Response:
        address = f"/{path}"
        found = files.get(address)
        if found is None and _is_page(address):
            found = first_page
        if found is None and methods_at(request):  # HEAD on a route that allows GET only
            raise HTTPException(405)
        if found is None:
            raise Refused("not_found", "There is nothing at this address.")
        return _answer(request, found)


def _is_page(address: str) -> bool:
    return not any(address == each or address.startswith(each + "/") for each in _NOT_PAGES)


def _answer(request: Request, file: File) -> Response:
    headers = {
        "Cache-Control": file.cache,
        "ETag": file.etag,
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": POLICY,
    }
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    content = file.content
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = file.packed, "gzip"
    return Response(content, media_type=file.media_type, headers=headers)


def _read(directory: Path) -> dict[str, File]:
    if not (directory / "index.html").is_file():
        return {}
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {
        address: _file(address, path.read_bytes())
        for path in paths
        for address in [f"/{path.relative_to(directory).as_posix()}"]
    }


def _file(address: str, content: bytes) -> File:
    media_type = mimetypes.guess_type(address)[0] or "application/octet-stream"
    if media_type == "text/javascript":
        media_type = "application/javascript"
    packed = gzip.compress(content, mtime=0) if media_type.startswith(_COMPRESSIBLE) else None
    return File(
        content=content,
        packed=packed if packed is not None and len(packed) < len(content) else None,
        media_type=media_type
        + ("; charset=utf-8" if media_type.startswith(("text/", "application/j")) else ""),
        cache="public, max-age=31536000, immutable" if address.startswith("/assets/") else "no-cache",
        etag=f'"{hashlib.sha256(content).hexdigest()[:32]}"',
    )
