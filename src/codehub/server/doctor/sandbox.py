"""Sandbox check of ``codehub doctor``: what a workspace could reach of CodeHub."""

import asyncio
import tempfile
from pathlib import Path

from codehub.runtimes.local.sandbox import Sandbox, find_bubblewrap
from codehub.runtimes.local.sandbox_check import check_sandbox
from codehub.server.doctor.findings import Finding, Verdict
from codehub.server.runtime_choice import private_directories, serves_others
from codehub.server.settings.tree import LocalSandbox, Settings

_INSTALL = (
    "Install bubblewrap (apt-get install bubblewrap) and allow user namespaces. Without it every "
    "workspace can read other homes and CodeHub's passwords: only for people you trust with all of it."
)


async def examine_sandbox(settings: Settings) -> Finding:
    """Try the sandbox from inside, with a temporary directory in the data directory."""
    if settings.runtime.local_sandbox is LocalSandbox.OFF:
        return Finding("sandbox", Verdict.NOTE, "switched off by CODEHUB_LOCAL_SANDBOX", _INSTALL)
    path = find_bubblewrap()
    if path is None:
        return _none(settings, "bubblewrap is not installed")
    with tempfile.TemporaryDirectory() as stand_in:
        data_dir = settings.data_dir if settings.data_dir.is_dir() else Path(stand_in)
        hidden = tuple(one for one in private_directories(settings) if one.is_dir())
        verdict = await asyncio.to_thread(check_sandbox, Sandbox(path, data_dir, hidden))
    if verdict.leaks:
        advice = "CodeHub does not start like this. Use another CODEHUB_DATA_DIR, or CODEHUB_RUNTIME=docker."
        return Finding("sandbox", Verdict.BAD, f"from inside: {', '.join(verdict.leaks)}", advice)
    if not verdict.works:
        return _none(settings, f"bubblewrap makes none here: {verdict.detail}")
    return Finding("sandbox", Verdict.OK, "bubblewrap; from inside, nothing of CodeHub's was reached")


def _none(settings: Settings, detail: str) -> Finding:
    is_needed = serves_others(settings) or settings.runtime.local_sandbox is LocalSandbox.REQUIRED
    return Finding("sandbox", Verdict.BAD if is_needed else Verdict.NOTE, detail, _INSTALL)
