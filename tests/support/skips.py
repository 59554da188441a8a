"""A pytest plugin: with ``CODEHUB_TEST_REQUIRE_ALL=1`` nothing may be skipped.

A test that skips itself everywhere tests nothing. Where everything it could need is installed, a skip is a
failure and says what was missing.
"""

import os
from collections.abc import Generator

import pytest

SWITCH = "CODEHUB_TEST_REQUIRE_ALL"


def _everything_is_required() -> bool:
    return os.environ.get(SWITCH, "") not in {"", "0"}


def _reason(longrepr: object) -> str:
    if isinstance(longrepr, tuple):
        return str(longrepr[-1]).removeprefix("Skipped: ")
    return str(longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and _everything_is_required():
        report.outcome = "failed"
        report.longrepr = f"skipped although {SWITCH} is set: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and _everything_is_required():
        report.outcome = "failed"
        report.longrepr = f"skipped although {SWITCH} is set: {_reason(report.longrepr)}"
    return report
