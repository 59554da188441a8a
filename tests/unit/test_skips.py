"""Where everything is required, a skipped test is a failed one."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest
def test_skips(): pytest.skip("needs the moon: apt-get install moon")
def test_passes(): pass
@pytest.mark.xfail(strict=True)
def test_expected_to_fail(): assert False
"""
MODULE = "import pytest\npytest.skip('needs the sun', allow_module_level=True)\n"


def run(directory: Path, required: str) -> str:
    (directory / "test_some.py").write_text(TESTS)
    (directory / "test_module.py").write_text(MODULE)
    plugins = ("-p", "tests.support.skips", "-p", "no:cacheprovider")
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-ra", "--continue-on-collection-errors", str(directory)],
        cwd=directory,
        env={
            **os.environ,
            "CODEHUB_TEST_REQUIRE_ALL": required,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return outcome.stdout


def test_a_skip_is_a_visible_line(tmp_path: Path) -> None:
    said = run(tmp_path, "")
    assert "needs the moon: apt-get install moon" in said
    assert "1 passed, 2 skipped, 1 xfailed" in said


def test_a_skip_is_a_failure_where_everything_is_required(tmp_path: Path) -> None:
    said = run(tmp_path, "1")
    assert "needs the moon: apt-get install moon" in said
    assert "needs the sun" in said
    assert "1 failed, 1 passed, 1 xfailed, 1 error" in said
