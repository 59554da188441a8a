"""One word for people: first match wins, over every combination of the axes."""

from itertools import product

import pytest

from codehub.domain.states import HealthStatus, ObservedStatus, Operation
from codehub.domain.status import Status, status_of

from .builders import KEY, NOW, an_error, workspace

S, O = ObservedStatus, Operation  # noqa: E741
AXES = list(product((False, True), S, ("ok", "error", "terminal"), O, (None, KEY)))


def expected(
    *, deleted: bool, observed: ObservedStatus, health: str, operation: Operation, key: str | None
) -> str:
    words = [
        (observed is S.DELETED, "deleted"),
        (deleted, "deleting"),
        (health != "ok", "error"),
        (operation is not O.NONE, operation.lower()),
        (observed is S.RUNNING, "running"),
        (observed is S.STANDBY, "standby"),
        (key is not None, "archived"),
        (True, "new"),
    ]
    return next(word for applies, word in words if applies)


@pytest.mark.parametrize(("deleted", "observed", "health", "operation", "key"), AXES)
def test_status(
    deleted: bool, observed: ObservedStatus, health: str, operation: Operation, key: str | None
) -> None:
    view = workspace(
        deleted_at=NOW if deleted else None,
        observed_status=observed,
        health_status=HealthStatus.ERROR if health == "error" else HealthStatus.OK,
        error_info=an_error(is_terminal=health == "terminal"),
        operation=operation,
        archive_key=key,
    )
    word = expected(deleted=deleted, observed=observed, health=health, operation=operation, key=key)
    assert status_of(view) == word


def test_every_word_is_used() -> None:
    words = {expected(deleted=d, observed=s, health=h, operation=o, key=k) for d, s, h, o, k in AXES}
    assert words == {status.value for status in Status}
