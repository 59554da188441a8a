"""CodeHub's own image with everything in one container: ``docker run -v codehub:/data … codehub/codehub up``."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.support.built_images import built_image
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = [
    pytest.mark.needs_docker,
    pytest.mark.needs_built_images,
    pytest.mark.timeout(1500),  # includes waiting for an image that is being built
]

OPENED = [f"--security-opt={what}=unconfined" for what in ("seccomp", "apparmor", "systempaths")]
DOCUMENTATION = Path(__file__).parents[3] / "docs/operate/install.md"


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"codehub-all-in-one-{uuid4().hex[:8]}"
    yield chosen
    docker("rm", "--force", chosen, check=False)
    docker("volume", "rm", chosen, check=False)


def docker(*arguments: str, given: str = "", check: bool = True) -> str:
    done = subprocess.run(["docker", *arguments], input=given, capture_output=True, text=True, check=check)
    return done.stdout + done.stderr


def test_without_namespaces_it_says_what_docker_has_to_allow(name: str) -> None:
    said = docker("run", "--name", name, "-v", f"{name}:/data", built_image("codehub"), "up", check=False)
    assert "CodeHub does not start" in said
    assert all(option.replace("=", " ", 1) in said for option in OPENED)


async def test_it_runs_as_an_ordinary_user_and_finds_its_data_again(name: str) -> None:
    port = free_port()
    publish = [
        "-p",
        f"127.0.0.1:{port}:8000",
        "-v",
        f"{name}:/data",
        "-e",
        "CODEHUB_ADMIN_PASSWORD=a-pass-phrase",
    ]
    start = ["run", "--detach", "--name", name, *publish, *OPENED, built_image("codehub"), "up"]
    docker(*start)
    address = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=address, trust_env=False) as client:

        async def is_ready() -> bool:
            try:
                return (await client.get("/health/ready")).status_code == 200
            except httpx.HTTPError:
                return False

        await until(is_ready, what="readiness", seconds=120)
        assert "CodeHub" in (await client.get("/")).text
        assert docker("exec", name, "id", "-u").strip() == "10001"
        assert "admin" in docker("exec", name, "codehub", "user", "list")
        docker("exec", "-i", name, "codehub", "user", "add", "ann", "--password-stdin", given="a pass phrase")
        docker("rm", "--force", name)  # another container, the same volume
        docker(*start)
        await until(is_ready, what="readiness", seconds=120)
        assert "ann" in docker("exec", name, "codehub", "user", "list")


def test_the_documentation_has_these_options() -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    assert all(option.replace("=", " ", 1) in text for option in OPENED)
