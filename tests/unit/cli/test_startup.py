"""``codehub --help`` and every press of TAB load this program: what is heavy stays out until it is needed."""

import subprocess
import sys

HEAVY = (
    "httpx",
    "rich.progress",
    "sqlalchemy",
    "fastapi",
    "pydantic",
    "alembic",
    "uvicorn",
    "asyncpg",
    "redis",
)


def test_nothing_heavy_is_loaded_before_a_command_runs() -> None:
    program = f"import sys, codehub.cli.main; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
