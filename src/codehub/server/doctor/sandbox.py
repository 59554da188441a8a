"""Sandbox check of ``codehub doctor``: what a workspace could reach of CodeHub."""

import asyncio
import tempfile
from pathlib import Path

from codehub.runtimes.local.sandbox import Sandbox, find_bubblewrap
from codehub.runtimes.local.sandbox_check import NOT_INSTALLED, bubblewrap_failed, check_sandbox
from codehub.server.doctor.findings import Finding, Severity
from codehub.server.sandbox_rule import (
    OFF_FOR_OTHERS,
    WITHOUT,
    mending,
    mending_off,
    private_directories,
    serves_others,
)
from codehub.server.settings.tree import LocalSandbox, Settings


async def examine_sandbox(settings: Settings) -> Finding:
    """Try the sandbox from inside, with a temporary directory in the data directory."""
    if settings.runtime.local_sandbox is LocalSandbox.OFF:
        return _switched_off(settings)
    path = find_bubblewrap()
    if path is None:
        return _none(NOT_INSTALLED)
    with tempfile.TemporaryDirectory() as stand_in:
        data_dir = settings.data_dir if settings.data_dir.is_dir() else Path(stand_in)
        hidden = tuple(one for one in private_directories(settings) if one.is_dir())
        result = await asyncio.to_thread(check_sandbox, Sandbox(path, data_dir, hidden))
    if result.leaks:
        advice = "CodeHub does not start like this. Use another CODEHUB_DATA_DIR, or CODEHUB_RUNTIME=docker."
        return Finding("sandbox", Severity.BAD, f"from inside: {', '.join(result.leaks)}", advice)
    if not result.works:
        return _none(bubblewrap_failed(result.detail))
    return Finding("sandbox", Severity.OK, "bubblewrap; from inside, nothing of CodeHub's was reached")


def _switched_off(settings: Settings) -> Finding:
    if serves_others(settings):
        return Finding("sandbox", Severity.BAD, OFF_FOR_OTHERS, f"CodeHub does not start. {mending_off()}")
    detail = f"switched off by CODEHUB_LOCAL_SANDBOX: {WITHOUT}"
    return Finding(
        "sandbox", Severity.NOTE, detail, "Remove the setting, unless you trust everybody who has one."
    )


def _none(reason: str) -> Finding:
    return Finding("sandbox", Severity.BAD, reason, f"CodeHub does not start without one. {mending(reason)}")
