"""Configure logging: a constant message plus fields, for terminals or as JSON.

``configure()`` is called once, by the process's main. Everything goes to standard error through one chain,
the standard library's loggers (uvicorn, SQLAlchemy, Alembic) included, so that every line has the same shape
and no line carries a secret:

* fields named like a secret (password, token, cookie…) are masked;
* passwords inside addresses (``postgresql://user:secret@host``) and bearer tokens are masked wherever they
  appear, tracebacks included.
"""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

import structlog

MASK = "***"

_SECRET_FIELD = re.compile(r"passw|secret|token|authorization|cookie|api_?key|credential", re.IGNORECASE)
_HARMLESS_FIELD = re.compile(r"token_id|_count$|_seconds$", re.IGNORECASE)
_ADDRESS_PASSWORD = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s/:@'\"]*:)[^\s@'\"]+(?=@)", re.IGNORECASE)
_BEARER = re.compile(r"(?P<before>\bBearer\s+)[A-Za-z0-9._~+/=-]+", re.IGNORECASE)
_QUIET = ("uvicorn.access", "uvicorn.error", "httpx", "httpcore", "asyncio", "alembic", "sqlalchemy.engine")


def configure(*, json: bool, level: str, node_id: str | None = None, stream: TextIO | None = None) -> None:
    """Send every log line of this process to ``stream`` (standard error). Idempotent."""
    stream = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        _drop_colour,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _bind(node_id),
    ]
    ending: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, redact, structlog.processors.JSONRenderer()]
        if json
        else [redact, _console(stream)]
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask secrets in a log event, nested values included."""
    for key, value in event.items():
        event[key] = _masked(key, value)
    return event


def redact_text(text: str) -> str:
    """Mask passwords in addresses, and bearer tokens."""
    return _BEARER.sub(rf"\g<before>{MASK}", _ADDRESS_PASSWORD.sub(rf"\g<before>{MASK}", text))


def _masked(key: str, value: Any) -> Any:
    if value is not None and _SECRET_FIELD.search(key) and not _HARMLESS_FIELD.search(key):
        return MASK
    match value:
        case str():
            return redact_text(value)
        case Mapping():
            return {inner: _masked(str(inner), item) for inner, item in value.items()}
        case list() | tuple():
            return [_masked("", item) for item in value]
        case BaseException():
            return redact_text(f"{type(value).__name__}: {value}")
        case _:
            return value


def _drop_colour(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event.pop("color_message", None)  # uvicorn sends each message twice
    return event


def _bind(node_id: str | None) -> structlog.typing.Processor:
    def add_node(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if node_id is not None:
            event.setdefault("node_id", node_id)
        return event

    return add_node


def _console(stream: TextIO) -> structlog.typing.Processor:
    colors = stream.isatty()

    def render(logger: Any, name: str, event: MutableMapping[str, Any]) -> str:
        # On a terminal there is one process, known to the person: names of loggers and nodes add nothing.
        event.pop("node_id", None)
        event.pop("logger", None)
        return redact_text(renderer(logger, name, event))

    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, exception_formatter=structlog.dev.plain_traceback, pad_event_to=32
    )
    return render
