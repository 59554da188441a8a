"""What some tests need and no package can bring: asked for in one line, which says how to get it.

Without it the test is skipped, visibly. With ``CODEHUB_TEST_REQUIRE_ALL=1`` (as ``.ci/run`` sets it) a skip
is a failure (``tests/support/skips.py``): on the machine that decides, everything is tested.
"""

import http.client
import os
import shutil
import socket
from pathlib import Path

import pytest

from codehub.proxy.upstream.relay import load as load_relay
from codehub.runtimes.inside import find_inside

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class _DockerConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=5)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(5)
        self.sock.connect(self._path)


def require_docker() -> str:
    """The address of a Docker engine that answers."""
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if address.startswith("unix://"):
        connection = _DockerConnection(address.removeprefix("unix://"))
        try:
            connection.request("GET", "/_ping")
            if connection.getresponse().status == http.client.OK:
                return address
        except OSError:
            pass
        finally:
            connection.close()
    pytest.skip("needs a Docker engine: apt-get install docker.io, then start dockerd")


def require_chromium() -> Path:
    """A Chromium that Playwright can drive."""
    for name in CHROMIUM_NAMES:
        if (found := shutil.which(name)) is not None:
            return Path(found)
    pytest.skip("needs a browser: apt-get install chromium")


def require_bubblewrap() -> Path:
    return _require_program("bwrap", package="bubblewrap")


def require_program(name: str, *, package: str) -> Path:
    """A system tool, by the Debian package that brings it."""
    return _require_program(name, package=package)


def require_relay() -> None:
    """The proxy's relay, which is built where there is a C compiler."""
    if load_relay() is None:
        pytest.skip("needs the relay: apt-get install gcc libc6-dev, touch pyproject.toml, make setup")


def require_inside() -> Path:
    """The program that runs inside workspaces, which is built where there is Go."""
    if (found := find_inside()) is None:
        pytest.skip("needs the program for workspaces: install Go, then make inside")
    return found / "inside"


def require_node() -> Path:
    return _require_program("node", package="nodejs npm")


def _require_program(name: str, *, package: str) -> Path:
    if (found := shutil.which(name)) is not None:
        return Path(found)
    pytest.skip(f"needs {name}: apt-get install {package}")
