"""Images for tests, made of what is on this machine: nothing is pulled.

``tiny`` and its relatives are busybox alone and start in no time. ``job`` holds this Python, GNU tar and
CodeHub's own source, with every library they load: what ``images/job`` builds from a distribution.
"""

import fcntl
import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import obstore
import zstandard

import codehub
from tests.support.docker_api import DockerApi
from tests.support.requirements import require_program

REPOSITORY = "codehub-test"
APP = "/app"
PYTHON = os.path.realpath(sys.executable)
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
JOB_SCRIPT = Path(__file__).with_name("docker_job.py")

_SERVE = 'echo "listens on $CODEHUB_PORT as $(id -u) in $HOME"; exec httpd -f -p "$CODEHUB_PORT" -h /www'
SCRIPTS = {
    "tiny": _SERVE,
    "wrong": 'echo "this command is wrong"; exit 3',
    "stubborn": f"trap '' TERM; {_SERVE}",
    # Serves until there is a file "eat" in its home, then takes all the memory there is.
    "hungry": (
        'echo "listens"; httpd -p "$CODEHUB_PORT" -h /www; '
        'while [ ! -e "$HOME/eat" ]; do sleep 0.1; done; rm -f "$HOME/eat"; exec busybox tail /dev/zero'
    ),
    "greedy": 'echo "wants it all"; exec busybox tail /dev/zero',
    "fragile": 'echo "listens"; httpd -p "$CODEHUB_PORT" -h /www; sleep 0.5; exit 7',
}
_SKIPPED = re.compile(
    r"/(site-packages|dist-packages|test|tests|idlelib|tkinter|ensurepip|lib2to3)/|\.opt-\d\.pyc$|/config-"
)


def image(name: str) -> str:
    return f"{REPOSITORY}/{name}:{_version(name)}"


def ensure_images(api: DockerApi, names: Iterable[str]) -> None:
    """Make those that are missing. Several test processes may ask at once: one makes them."""
    for name in names:
        if api.has_image(image(name)):
            continue
        with _lock(api):
            if not api.has_image(image(name)):
                _make(api, name)


def _make(api: DockerApi, name: str) -> None:
    if name == "job":
        changes = [f"ENV PYTHONPATH={APP}", "ENV PATH=/usr/bin:/bin", f'ENTRYPOINT ["{PYTHON}"]']
        api.import_image(image(name), _job_tar(), changes=changes)
        return
    script = SCRIPTS[name].replace('"', '\\"')
    changes = [
        "USER 1000:1000",
        "LABEL codehub.home=/home/person",
        "LABEL codehub.port=8081",
        f'ENTRYPOINT ["/bin/sh", "-c", "{script}"]',
    ]
    api.import_image(image(name), busybox_tar(), changes=changes)


@cache
def _version(name: str) -> str:
    """Changes with what is inside, so that an image of yesterday's source is never used."""
    digest = hashlib.sha256(SCRIPTS.get(name, "").encode())
    digest.update(Path(__file__).read_bytes())
    if name == "job":
        for path in [JOB_SCRIPT, *sorted(_source_files())]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _source_files() -> list[Path]:
    """The rooms a storage job lives in."""
    source = Path(codehub.__file__).parent
    rooms = [each for room in ("archives", "domain", "kit") for each in (source / room).rglob("*.py")]
    return [source / "__init__.py", *rooms]


def busybox_tar(*, page: bytes = b"a workspace\n") -> bytes:
    busybox = require_program("busybox", package="busybox-static")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder, owner in (("bin", 0), ("tmp", 0), ("www", 0), ("home", 0), ("home/person", 1000)):
            _add_folder(tar, folder, owner=owner)
        tar.add(busybox, "bin/busybox")
        for applet in ("sh", "httpd", "sleep", "id", "cat", "wget", "nc", "ls", "rm"):
            _add_link(tar, f"bin/{applet}", "busybox")
        _add_file(tar, "home/person/.profile", b"# from the image\n", owner=1000)
        _add_file(tar, "www/index.html", page)
    return buffer.getvalue()


def _job_tar() -> bytes:
    binaries = [Path(PYTHON), require_program("tar", package="tar")]
    paths: dict[str, Path] = {}
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        base = Path(folder.replace(sys.prefix, sys.base_prefix))
        paths.update({str(each): each for each in _files_of(base)})
    for package in (Path(str(zstandard.__file__)).parent, Path(str(obstore.__file__)).parent):
        paths.update({f"{APP}/{each.relative_to(package.parent)}": each for each in _files_of(package)})
    source = Path(codehub.__file__).parent.parent
    paths.update({f"{APP}/{each.relative_to(source)}": each for each in _source_files()})
    paths[f"{APP}/{JOB_SCRIPT.name}"] = JOB_SCRIPT
    paths.update({str(each): each for each in binaries})
    if CERTIFICATES.exists():  # without any, obstore makes no client at all
        paths[str(CERTIFICATES)] = CERTIFICATES
    loaded = [each for each in paths.values() if each.suffix == ".so" or each in binaries]
    paths.update({library: Path(library) for library in _libraries(loaded)})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as tar:
        for folder in ("tmp", "volume"):
            _add_folder(tar, folder)
        for name, path in paths.items():
            tar.add(path, name.lstrip("/"))
        if "/usr/bin/python3" not in paths:
            _add_link(tar, "usr/bin/python3", PYTHON)
    return buffer.getvalue()


def _files_of(base: Path) -> Iterator[Path]:
    for each in base.rglob("*"):
        if each.is_file() and not _SKIPPED.search(f"/{each.relative_to(base)}"):
            yield each


def _libraries(binaries: Iterable[Path]) -> set[str]:
    said = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", said))


def _add_folder(tar: tarfile.TarFile, name: str, *, owner: int = 0) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    member.uid = member.gid = owner
    tar.addfile(member)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    tar.addfile(member)


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, *, owner: int = 0) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.uid, member.gid = len(content), 0o644, owner, owner
    tar.addfile(member, io.BytesIO(content))


@contextmanager
def _lock(api: DockerApi) -> Iterator[None]:
    mark = hashlib.sha256(api.address.encode()).hexdigest()[:12]
    with open(Path(tempfile.gettempdir()) / f"codehub-test-images-{mark}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
