"""The package as others get it: a wheel and a source distribution, with the dashboard or not at all."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INDEX = "codehub/api/static/index.html"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What git has, and nothing that was built."""
    where = tmp_path / "checkout"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in listed.decode().split("\0"):
        if name.startswith(("src/", "pyproject", "hatch_build", "README.md", "LICENSE", ".gitignore")):
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, where / name)
    return where


def build(where: Path, target: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_without_the_dashboard_there_is_no_package(checkout: Path, target: str) -> None:
    built = build(checkout, target)
    assert built.returncode != 0
    assert "make web" in built.stdout + built.stderr
    assert not list((checkout / "dist").glob("*codehub*"))


def test_the_dashboard_is_in_the_wheel_and_in_one_made_of_the_sources(checkout: Path, tmp_path: Path) -> None:
    page = checkout / "src" / INDEX
    page.parent.mkdir()
    page.write_text("<title>the dashboard</title>")
    assert build(checkout, "wheel").returncode == 0
    assert INDEX in files_of_wheel(checkout)

    assert build(checkout, "sdist").returncode == 0
    (source,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert build(unpacked, "wheel").returncode == 0
    assert INDEX in files_of_wheel(unpacked)


def files_of_wheel(where: Path) -> list[str]:
    (wheel,) = (where / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()
