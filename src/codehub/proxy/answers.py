"""Build the responses that the proxy gives itself: problems and redirects."""

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

_ALWAYS: Final = b"X-Content-Type-Options: nosniff\r\nReferrer-Policy: same-origin\r\n"
_OVER_HTTPS: Final = b"Strict-Transport-Security: max-age=31536000\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response of the proxy itself.

    Sent with ``Cache-Control: no-store`` unless ``fields`` sets another.
    """

    status: int
    body: bytes = b""
    content_type: str = ""
    fields: tuple[tuple[str, str], ...] = field(default=())

    def head(self, *, close: bool, secure: bool) -> bytes:
        """Write the status line and fields.

        ``secure``: the public URL is HTTPS, so add HSTS.
        """
        names = {name.lower() for name, _ in self.fields}
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        if self.content_type:
            lines.append(f"Content-Type: {self.content_type}")
        lines.append(f"Content-Length: {len(self.body)}")
        lines += [f"{name}: {value}" for name, value in self.fields]
        if "cache-control" not in names:
            lines.append("Cache-Control: no-store")
        if close:
            lines.append("Connection: close")
        always = _ALWAYS + _OVER_HTTPS if secure else _ALWAYS
        return "\r\n".join(lines).encode("latin-1") + b"\r\n" + always + b"\r\n"


def method_not_allowed(*allowed: str) -> Answer:
    """Build a 405 problem with its ``Allow`` field."""
    answer = problem(405, "method_not_allowed", f"Only {' and '.join(allowed)}.")
    return Answer(405, answer.body, answer.content_type, (("Allow", ", ".join(allowed)),))


def problem(status: int, code: str, detail: str, *, retry_after: int | None = None) -> Answer:
    """Build an ``application/problem+json`` answer (RFC 9457), as the API does."""
    body = {
        "type": f"urn:codehub:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    fields = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return Answer(status, json.dumps(body).encode(), "application/problem+json", fields)


def redirect(status: int, location: str, *, fields: tuple[tuple[str, str], ...] = ()) -> Answer:
    """Build a redirect to ``location``."""
    return Answer(status, fields=(("Location", location), *fields))


def unauthorized() -> Answer:
    """Build a 401 problem with its ``WWW-Authenticate`` field."""
    answer = problem(401, "not_signed_in", "Sign in, or send a token as Authorization: Bearer.")
    return Answer(401, answer.body, answer.content_type, (("WWW-Authenticate", 'Bearer realm="codehub"'),))


def not_found() -> Answer:
    """Build a 404 problem.

    Also for workspaces of other people: the answer must not reveal that they exist.
    """
    return problem(404, "not_found", "There is no such workspace.")


def refused(status: int, cause: str) -> Answer:
    """Build the problem for a request that failed parsing or timed out."""
    if status == 405:  # CONNECT and TRACE on any path: list every method that some path allows
        return method_not_allowed("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
    return problem(status, "bad_request" if status == 400 else cause.replace(" ", "_"), f"Refused: {cause}.")
