"""Build the OpenAPI document: FastAPI's, plus the problems common to all calls.

Each call under ``/api/v1`` may be refused for its size, its media type or its shape, or because the database is
away; these responses are added to each call.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from codehub.api import problems
from codehub.api.schemas import examples
from codehub.api.schemas.base import RequestBody, ResponseBody
from codehub.api.schemas.problems import Problem

_EVERYWHERE = ("validation_failed", "unavailable")
_WITH_BODY = ("bad_request", "too_large", "unsupported_media_type")
_SECURITY = {
    "session": {"type": "apiKey", "in": "cookie", "name": "codehub_session"},
    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "chp_…"},
}
_OPEN = {"/api/v1/auth/login"}


def install(app: FastAPI) -> None:
    """Replace ``app.openapi``. The document is built at first use."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title, version=app.version, summary=app.summary, routes=app.routes
            )
            _complete(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _complete(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {})
    described: dict[str, Any] = components.setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    described.update(problem.pop("$defs", {}))
    described["Problem"] = problem
    for unused in ("HTTPValidationError", "ValidationError"):
        described.pop(unused, None)
    examples = _examples()
    for name, schema in described.items():
        if name in examples:
            schema["example"] = examples[name]
    components["securitySchemes"] = _SECURITY
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path.startswith("/api/"):
                _complete_call(path, method, operation)
            else:
                operation["responses"].pop("422", None)


def _examples() -> dict[str, Any]:
    """Collect the models' examples as they are: FastAPI drops every null, and null is a value in them."""
    found: dict[str, Any] = {}
    remaining: list[type[BaseModel]] = [RequestBody, ResponseBody]
    while remaining:
        model = remaining.pop()
        remaining.extend(model.__subclasses__())
        extra = model.model_config.get("json_schema_extra")
        if isinstance(extra, dict) and "example" in extra:
            found[model.__name__] = extra["example"]
    return found | {"Workspace": examples.WORKSPACE}  # a typed dictionary


def _complete_call(path: str, method: str, operation: dict[str, Any]) -> None:
    codes = _EVERYWHERE + (_WITH_BODY if method in {"post", "put", "patch", "delete"} else ())
    responses: dict[str, Any] = operation["responses"]
    for status, response in problems.documented(*codes).items():
        known = responses.get(str(status))
        if known is None or problems.MEDIA_TYPE not in known.get("content", {}):
            responses[str(status)] = response
        else:
            examples = known["content"][problems.MEDIA_TYPE]["examples"]
            examples.update(response["content"][problems.MEDIA_TYPE]["examples"])
    operation["responses"] = dict(sorted(responses.items()))
    operation["security"] = [] if path in _OPEN else [{"session": []}, {"token": []}]
