"""Map errors to RFC 9457 problem details: one table from code to status.

Every error CodeHub raises on purpose has a stable ``code`` for programs and a ``detail`` for people.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from codehub.api.field_errors import describe
from codehub.api.methods import methods_at
from codehub.domain.errors import CodeHubError, EffectError
from codehub.domain.ssh_keys import UnfitKeyError
from codehub.services.errors import LimitReached
from codehub.services.sign_in import TooManyAttempts
from codehub.store.errors import DATABASE_FAILED, is_outage
from codehub.store.outage import DATABASE

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:codehub:problem:"


@dataclass(frozen=True)
class Kind:
    """Status, title and an example detail of one problem code."""

    status: int
    title: str
    example: str


KINDS: Mapping[str, Kind] = {
    "bad_request": Kind(400, "The request cannot be read", "The body is not JSON in UTF-8."),
    "unauthorized": Kind(401, "Not signed in", "Sign in, or send a token as Authorization: Bearer."),
    "invalid_credentials": Kind(
        401, "Wrong name or password", "That name and password do not belong together."
    ),
    "forbidden": Kind(403, "Not allowed", "Only administrators may do that."),
    "csrf": Kind(403, "Not from this site", "The request did not come from a page of this site."),
    "wrong_password": Kind(403, "Wrong password", "The current password is not right."),
    "share_refused": Kind(
        403,
        "It cannot be shared like that",
        "Ports are shared at origins of their own only, and this installation has none.",
    ),
    "file_refused": Kind(403, "The workspace does not allow it", "open /etc/shadow: permission denied"),
    "not_found": Kind(404, "Not found", "There is no such workspace."),
    "file_not_found": Kind(404, "No such file", "open notes.md: no such file or directory"),
    "method_not_allowed": Kind(405, "Method not allowed", "This address does not know that method."),
    "name_taken": Kind(409, "Name taken", "a workspace named 'thesis' exists already"),
    "username_taken": Kind(409, "Username taken", "there is a user 'ann' already"),
    "key_taken": Kind(409, "The key is taken", "You have this key already, as 'laptop'."),
    "too_many_keys": Kind(
        409, "Too many keys", "You have 50 keys, which is as many as one may have. Remove one first."
    ),
    "too_many_shares": Kind(
        409,
        "Too many shares",
        "50 ports have a label or a share, which is as many as may have. Remove one first.",
    ),
    "deleted": Kind(409, "Deleted", "Deleted workspaces cannot be changed."),
    "archived": Kind(
        409, "Archived", "The workspace is archived or on its way there; there is nothing to stop."
    ),
    "home_not_given_up": Kind(
        409,
        "The home is not given up",
        "Nothing was changed: the home is not on a node that is unavailable, or that is not its last archive.",
    ),
    "archive_not_restorable": Kind(
        409,
        "It cannot return to this archive",
        "Nothing was changed. The workspace is at this archive already.",
    ),
    "snapshot_refused": Kind(
        409,
        "No snapshot can be taken of this",
        "Nothing was changed. Snapshots are taken of a sleeping home: stop the workspace first.",
    ),
    "not_copyable": Kind(
        409,
        "No copy can be opened of this",
        "Nothing was created. Its home is newer than its archives: take a snapshot first, and copy that.",
    ),
    "nothing_to_adopt": Kind(
        409,
        "There is nothing to adopt",
        "Nothing was changed. Neither a volume nor an archive of it was found.",
    ),
    "archive_unreadable": Kind(
        409,
        "The archive cannot be looked into",
        "The archive is damaged: its checksum does not match.",
    ),
    "not_running": Kind(409, "It does not run", "thesis is asleep. To wake it: codehub ssh --wake thesis"),
    "waking": Kind(409, "It is starting", "thesis is starting. Try again in a moment."),
    "file_conflict": Kind(409, "Not with what is there", "mkdir notes: file exists"),
    "last_admin": Kind(409, "The last admin", "admin is the last admin. Make another one first."),
    "too_large": Kind(413, "Too large", "A body may have 1 MiB at most."),
    "unsupported_media_type": Kind(415, "Unsupported media type", "Bodies are application/json."),
    "validation_failed": Kind(422, "Not valid", "name: at most 64 characters"),
    "unknown_image": Kind(422, "Unknown image", "There is no image 'vim'. Known: jupyterlab."),
    "unfit_username": Kind(422, "Unfit username", "'ann!' cannot be a username."),
    "unfit_password": Kind(422, "Unfit password", "A password needs at least 8 characters."),
    "unfit_key": Kind(422, "Unfit key", "These are several lines. Add one key at a time."),
    "not_started": Kind(422, "It could not be started", "no-such-program: no such program"),
    "rate_limited": Kind(429, "Too many attempts", "Too many failed attempts. Try again in 42 s."),
    "busy": Kind(429, "Too much at once", "thesis has 16 commands and transfers under way. Try again later."),
    "limit_user": Kind(429, "Your limit is reached", "You run 2 of 2 workspaces that may run at a time."),
    "limit_global": Kind(
        429, "The limit is reached", "All together run 100 of 100 workspaces that may run at a time."
    ),
    "downloads_busy": Kind(
        429, "Too many downloads", "Two downloads of yours are open. Try again when one has ended."
    ),
    "internal": Kind(500, "CodeHub made a mistake", "It is in the log, under this request's id."),
    "unavailable": Kind(503, "Not available", "The database does not answer. Try again in a moment."),
    "archive_indexing": Kind(
        503,
        "The archive is being read",
        "This archive is being read for the first time. Try again in a moment.",
    ),
    "not_ready": Kind(503, "Not ready", "The database does not answer."),
    "no_space": Kind(507, "No space left", "write notes.md: no space left on device"),
}

FIELD_OF: Mapping[str, str] = {
    "unknown_image": "image_ref",
    "unfit_username": "username",
    "unfit_password": "password",
    "unfit_key": "public_key",
}

_OF_STATUS: Mapping[int, str] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    422: "validation_failed",
    503: "unavailable",
}


class Refused(CodeHubError):
    """A request that the API itself refuses, with a code of ``KINDS``."""

    def __init__(self, code: str, detail: str | None = None) -> None:
        super().__init__(detail or KINDS[code].example)
        self.code = code


def _own_error(field: str, message: str, *, code: str = "not_valid") -> dict[str, Any]:
    """An error that CodeHub found, not the validator."""
    return {"field": field, "message": message, "code": code, "params": {}}


class Invalid(CodeHubError):
    """One field of a request is not valid."""

    code = "validation_failed"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.errors = [_own_error(field, message)]


def document(code: str, detail: str, **more: Any) -> dict[str, Any]:
    """Build the JSON object of a problem."""
    kind = KINDS[code]
    return {
        "type": TYPE_PREFIX + code,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "code": code,
        **more,
    }


def problem(code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """Build the response of a problem."""
    content = document(code, detail, **more)
    body = json.dumps(content, ensure_ascii=False, default=str).encode("utf-8", "replace")
    return Response(body, status_code=content["status"], media_type=MEDIA_TYPE, headers=headers)


def install(app: FastAPI) -> None:
    """Register the exception handlers."""
    app.add_exception_handler(CodeHubError, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    for away in DATABASE_FAILED:
        app.add_exception_handler(away, _on_database_away)


def of_error(error: CodeHubError) -> Response:
    """Build the response for a ``CodeHubError``. An unknown code is a 500."""
    if isinstance(error, EffectError):
        return unavailable(error.message)
    if isinstance(error, LimitReached):
        running = [{"id": str(r.view.id), "name": r.name, "status": r.status} for r in error.running]
        return problem(
            error.code, str(error), used=error.usage.used, allowed=error.usage.allowed, running=running
        )
    if isinstance(error, TooManyAttempts):
        return problem(error.code, str(error), headers={"Retry-After": str(error.retry_after_seconds)})
    code = error.code if error.code in KINDS else "internal"
    more: dict[str, Any] = {}
    if isinstance(error, Invalid):
        more["errors"] = error.errors
    elif code in FIELD_OF:
        reason = error.reason if isinstance(error, UnfitKeyError) else code
        more["errors"] = [_own_error(FIELD_OF[code], str(error), code=reason)]
    headers = {"WWW-Authenticate": 'Bearer realm="codehub"'} if code == "unauthorized" else None
    if code == "archive_indexing":
        headers = {"Retry-After": "2"}
    return problem(code, str(error), headers=headers, **more)


def unavailable(detail: str) -> Response:
    """Build a 503 with ``Retry-After``."""
    return problem("unavailable", detail, headers={"Retry-After": "1"})


def internal() -> Response:
    """Build a 500 without details: these are in the log."""
    return problem("internal", KINDS["internal"].example)


async def _on_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, CodeHubError)
    if error.code not in KINDS and not isinstance(error, EffectError):
        log.error("an error without a place in the API", code=error.code, exc_info=error)
    return of_error(error)


async def _on_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [describe(each) for each in error.errors()]
    detail = "; ".join(f"{each.field}: {each.message}" for each in errors[:3])
    return problem("validation_failed", detail, errors=[each.model_dump() for each in errors])


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = methods_at(request)
        if not methods:
            return problem("not_found", "There is nothing at this address.")
        return problem(
            "method_not_allowed", KINDS["method_not_allowed"].example, headers={"Allow": ", ".join(methods)}
        )
    code = _OF_STATUS.get(error.status_code, "bad_request")
    return problem(code, KINDS[code].example, headers=error.headers)


async def _on_database_away(_request: Request, error: Exception) -> Response:
    return of_database_error(error)


def of_database_error(error: Exception) -> Response:
    """Build the response for a database error.

    503 for an outage, which is worth a retry; 500 for a statement the database refused, which is a bug.
    """
    if not is_outage(error):
        log.error("the database refused a statement", exc_info=error)
        return internal()
    DATABASE.failed("api", error)
    return unavailable("The database does not answer. Try again in a moment.")


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Build the ``responses`` of a route that may refuse with these codes."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {status: _response(status, of_status) for status, of_status in sorted(by_status.items())}


def _response(status: int, codes: Iterable[str]) -> dict[str, Any]:
    examples = {code: {"summary": KINDS[code].title, "value": _example(code)} for code in codes}
    response: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": examples}},
    }
    if status in (429, 503):
        response["headers"] = {
            "Retry-After": {"description": "Seconds", "required": False, "schema": {"type": "string"}}
        }
    return response


def _example(code: str) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if KINDS[code].status == 422:
        found = code if code in FIELD_OF else "not_valid"
        more["errors"] = [_own_error(FIELD_OF.get(code, "name"), KINDS[code].example, code=found)]
    if code.startswith("limit_"):
        running = {"id": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f", "name": "thesis", "status": "running"}
        more |= {"used": 2, "allowed": 2, "running": [running]}
    return document(code, KINDS[code].example, **more)
