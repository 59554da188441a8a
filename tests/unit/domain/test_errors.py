"""Codes, reasons, and what is stored of an error and of a home."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.domain.errors import REASON_OF, EffectError, ErrorInfo, FailureCode, Reason
from codehub.domain.states import Operation
from codehub.domain.workspace import HomeContext

from .builders import NOW

F = FailureCode

SPECIFIED = {
    Reason.DATA_LOST: {F.ARCHIVE_NOT_FOUND, F.CHECKSUM_MISMATCH},
    Reason.ACTION_FAILED: {
        F.READ_BACK_MISMATCH,
        F.TAR_EXTRACT_FAILED,
        F.VOLUME_CREATE_FAILED,
        F.CONTAINER_START_FAILED,
        F.IMAGE_PULL_FAILED,
    },
    Reason.UNREACHABLE: {F.S3_ACCESS_ERROR, F.K8S_API_ERROR, F.DOCKER_API_ERROR},
}


@pytest.mark.parametrize("code", F)
def test_every_code_has_a_reason(code: FailureCode) -> None:
    assert EffectError(code, "words").reason is REASON_OF[code]


@pytest.mark.parametrize(
    ("reason", "code"), [(r, c) for r, codes in SPECIFIED.items() for c in sorted(codes)]
)
def test_the_specified_codes_map_to_their_reasons(reason: Reason, code: FailureCode) -> None:
    assert REASON_OF[code] is reason


@pytest.mark.parametrize("reason", [Reason.RETRY_EXCEEDED])
def test_no_single_failure_is_called_retries_exceeded(reason: Reason) -> None:
    assert reason not in REASON_OF.values()


def test_an_effect_error_carries_its_code_into_the_context() -> None:
    error = EffectError(F.NO_SPACE, "The disk is full.", needed=7)
    assert str(error) == "The disk is full."
    assert error.context == {"code": "NO_SPACE", "needed": 7}


JSON_VALUES = st.dictionaries(
    st.text(max_size=5), st.text(max_size=5) | st.integers() | st.none(), max_size=3
)


@given(
    st.builds(
        ErrorInfo,
        reason=st.sampled_from(Reason),
        message=st.text(max_size=20),
        is_terminal=st.booleans(),
        operation=st.sampled_from(Operation),
        error_count=st.integers(0, 10),
        occurred_at=st.datetimes(timezones=st.just(NOW.tzinfo)),
        context=JSON_VALUES,
    )
)
def test_an_error_survives_the_database(error: ErrorInfo) -> None:
    assert ErrorInfo.from_json(through_json(error.as_json())) == error


def test_an_error_is_stored_with_exactly_the_specified_fields() -> None:
    stored = ErrorInfo(Reason.MISMATCH, "words", True, Operation.NONE, 0, NOW).as_json()
    assert set(stored) == {
        "reason",
        "message",
        "is_terminal",
        "operation",
        "error_count",
        "context",
        "occurred_at",
    }


@given(
    st.builds(
        HomeContext,
        restore_marker=st.none() | st.text(max_size=10),
        volume=st.booleans(),
        ran_at=st.none() | st.datetimes(timezones=st.just(NOW.tzinfo)),
        crashes=st.integers(0, 10),
        sizes=st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    )
)
def test_a_home_survives_the_database(home: HomeContext) -> None:
    assert HomeContext.from_json(through_json(home.as_json())) == home


@pytest.mark.parametrize("stored", [None, {}, {"volume": False}], ids=str)
def test_a_row_that_says_nothing_of_its_home_is_a_blank_one(stored: dict[str, Any] | None) -> None:
    assert HomeContext.from_json(stored) == HomeContext()


def through_json(value: dict[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(value))
    return loaded
