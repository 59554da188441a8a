"""What the driver raises from callbacks of the loop, while its session is ended under it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
import structlog

from codehub.server.main import run_until_signal
from codehub.store import outage
from codehub.store.outage import DatabaseOutage

STATE = asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    monkeypatch.setattr(outage, "DATABASE", DatabaseOutage())  # with no line of another test
    with structlog.testing.capture_logs() as lines:
        yield lines


def run_with_callbacks(*errors: Exception) -> None:
    """As the server runs its work, with callbacks that raise these."""

    async def work() -> None:
        for error in errors:
            asyncio.get_running_loop().call_soon(_raise, error)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    run_until_signal(work(), on_stopping=lambda: None)


def _raise(error: Exception) -> None:
    raise error


def test_the_drivers_complaints_are_one_line_without_traceback(
    logged: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    run_with_callbacks(*[STATE] * 20)
    assert [each["event"] for each in logged] == ["the database does not answer"]
    assert caplog.records == []


def test_a_defect_is_reported_as_ever(logged: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    run_with_callbacks(ZeroDivisionError("a defect"))
    assert logged == []
    assert [each.exc_info is not None for each in caplog.records] == [True]
