"""The package as others get it: a wheel and a source distribution, with the dashboard or not at all."""

import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import httpx
import pytest

from tests.support.people import ADMIN_PASSWORD
from tests.support.requirements import require_program

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


@pytest.mark.timeout(600)  # a few dozen packages are installed
def test_a_wheel_alone_makes_a_codehub_that_runs(checkout: Path, tmp_path: Path) -> None:
    """As ``pipx install`` does: a Python and bubblewrap, without Node, make, a compiler or JupyterLab."""
    page = checkout / "src" / INDEX
    page.parent.mkdir()
    page.write_text("<title>the dashboard</title>")
    assert build(checkout, "wheel").returncode == 0
    (wheel,) = (checkout / "dist").glob("*.whl")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bwrap", "sh"):
        (programs / name).symlink_to(require_program(name, package="bubblewrap"))
    environment = tmp_path / "venv"
    pip: list[str | Path] = [
        environment / "bin/python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-deps",
    ]
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements/run.txt"], check=True)
    subprocess.run([*pip, wheel], check=True)
    env = {
        "PATH": f"{environment / 'bin'}:{programs}",
        "HOME": str(tmp_path),
        "CODEHUB_DATA_DIR": str(tmp_path / "data"),
        "CODEHUB_BIND": "127.0.0.1:0",
        "CODEHUB_ADMIN_PASSWORD": ADMIN_PASSWORD,
        "LOG_LEVEL": "error",
    }
    command: list[str | Path] = [environment / "bin/codehub", "up"]
    with subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = next(line for line in server.stdout if "CodeHub is ready" in line)
            url = said.rpartition(" ")[2].strip()
            with httpx.Client(base_url=url, headers={"Origin": url}, timeout=30, trust_env=False) as client:
                assert "the dashboard" in client.get("/").text
                who = {"username": "admin", "password": ADMIN_PASSWORD}
                assert client.post("/api/v1/auth/login", json=who).status_code == 200
                images = client.get("/api/v1/images").json()["items"]
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    assert [(image["name"], image["installation"]["version"]) for image in images] == [
        ("jupyterlab", None),
        ("code-server", None),
    ]
