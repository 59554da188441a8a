"""Logging: one shape for every line, and no secret in any."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from codehub.kit import logs


@pytest.fixture
def restored() -> Iterator[None]:
    """Leave the process's logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def written(json_format: bool = True) -> io.StringIO:
    stream = io.StringIO()
    logs.configure(json=json_format, level="info", node_id="node-1", stream=stream)
    return stream


@pytest.mark.usefixtures("restored")
def test_a_line_is_json_with_constant_message_and_fields() -> None:
    stream = written()
    structlog.get_logger("codehub.x").info("workspace started", workspace_id="w1")
    line = json.loads(stream.getvalue())
    assert line["event"] == "workspace started"
    assert (line["workspace_id"], line["node_id"], line["level"]) == ("w1", "node-1", "info")


@pytest.mark.usefixtures("restored")
def test_the_standard_library_goes_through_the_same_chain() -> None:
    stream = written()
    logging.getLogger("uvicorn.error").warning("cannot reach %s", "redis://:s3cret@host")
    line = json.loads(stream.getvalue())
    assert line["event"] == "cannot reach redis://:***@host"
    assert line["node_id"] == "node-1"


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("json_format", [True, False])
def test_secrets_are_masked_wherever_they_are(json_format: bool) -> None:
    stream = written(json_format)
    log = structlog.get_logger()
    try:
        raise ValueError("no answer from postgresql://ann:s3cret@host/db")
    except ValueError:
        log.exception(
            "failed with redis://:s3cret@host",
            password="s3cret",
            headers={"Authorization": "Bearer s3cret", "cookie": "s3cret"},
            urls=["postgresql://ann:s3cret@host"],
            error=RuntimeError("Bearer s3cret"),
            token_id="t1",
        )
    assert "s3cret" not in stream.getvalue()
    assert "t1" in stream.getvalue()
    assert "ValueError" in stream.getvalue()


@pytest.mark.usefixtures("restored")
def test_the_level_is_kept() -> None:
    stream = written()
    structlog.get_logger().debug("whispered")
    assert stream.getvalue() == ""
