"""Images for tests, made of what is on this machine: nothing is pulled.

``tiny`` and its relatives are busybox alone and start in no time; ``bare`` is one program and no shell, ``inside``
what CodeHub runs in workspaces. ``job`` holds this Python, GNU tar and
CodeHub's own source, with every library they load: what ``images/job`` builds from a distribution.
"""

import fcntl
import hashlib
import io
import json
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
import pyfastcdc
import typing_extensions
import zstandard

import codehub
from tests.support.docker_api import DockerApi
from tests.support.requirements import require_inside, require_program

REPOSITORY = "codehub-test"
HOME, PORT = "/home/person", 8081
BARE_COMMAND = ["/busybox-server", "httpd", "-f", "-p", str(PORT), "-h", "/www"]
APP = "/app"
PYTHON = os.path.realpath(sys.executable)
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
JOB_SCRIPT = Path(__file__).with_name("docker_job.py")
JOB_MODULES = [Path(__file__).with_name(name) for name in ("__init__.py", "killed_at.py", "trees.py")]
"""Of ``tests.support``: what the script imports."""

_SERVE = 'echo "listens on $CODEHUB_PORT as $(id -u) in $HOME"; exec httpd -f -p "$CODEHUB_PORT" -h /www'
TWO_WRITERS = ".two-writers"
SCRIPTS = {
    "tiny": _SERVE,
    # Writes its mark into its home again and again; whoever finds the mark of another one tells it.
    "writer": (
        'read -r me </proc/sys/kernel/random/uuid; echo "$me" >"$HOME/.turn"; while sleep 0.2; do '
        'read -r now <"$HOME/.turn"; [ "$now" = "$me" ] || echo "$me $now" >>"$HOME/.two-writers"; '
        'echo "$me" >"$HOME/.turn"; done & exec httpd -f -p "$CODEHUB_PORT" -h /www'
    ),
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
_NOTES = b"""#!/bin/sh
# A page with which a person writes into the home, and sees what is there.
[ "$REQUEST_METHOD" != POST ] || cat >"$HOME/notes.txt"
printf 'Content-Type: text/html\\r\\n\\r\\n'
cat <<END
<!doctype html><title>Notes</title>
<form method="post" enctype="text/plain"><label>Note <input name="note"></label> <button>Save</button></form>
<pre>$(cat "$HOME/notes.txt")</pre>
END
"""
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
        with engine_lock(api, "images"):
            if not api.has_image(image(name)):
                _make(api, name)


def _make(api: DockerApi, name: str) -> None:
    if name == "job":
        changes = [f"ENV PYTHONPATH={APP}", "ENV PATH=/usr/bin:/bin", f'ENTRYPOINT ["{PYTHON}"]']
        api.import_image(image(name), job_tar(), changes=changes)
        return
    command = BARE_COMMAND if name == "bare" else ["/bin/sh", "-c", SCRIPTS[name]]
    changes = [
        "USER 1000:1000",
        f"LABEL codehub.home={HOME}",
        f"LABEL codehub.port={PORT}",
        f"ENTRYPOINT {json.dumps(command)}",
    ]
    api.import_image(image(name), bare_tar() if name == "bare" else busybox_tar(), changes=changes)


@cache
def _version(name: str) -> str:
    """Changes with what is inside, so that an image of yesterday's source is never used."""
    digest = hashlib.sha256(SCRIPTS.get(name, "").encode())
    digest.update(Path(__file__).read_bytes())
    if name == "inside":
        digest.update(require_inside().read_bytes())
    if name == "job":
        for path in [JOB_SCRIPT, *JOB_MODULES, *sorted(_source_files())]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _source_files() -> list[Path]:
    """The packages a storage job imports."""
    source = Path(codehub.__file__).parent
    files = [each for name in ("archives", "domain", "kit") for each in (source / name).rglob("*.py")]
    return [source / "__init__.py", *files]


def busybox_tar(*, page: bytes = b"a workspace\n") -> bytes:
    busybox = require_program("busybox", package="busybox-static")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder, owner in (
            ("bin", 0),
            ("tmp", 0),
            ("www", 0),
            ("www/cgi-bin", 0),
            ("home", 0),
            ("home/person", 1000),
        ):
            _add_folder(tar, folder, owner=owner)
        tar.add(busybox, "bin/busybox")
        for applet in ("sh", "httpd", "sleep", "id", "cat", "wget", "nc", "ls", "rm"):
            _add_link(tar, f"bin/{applet}", "busybox")
        _add_file(tar, "home/person/.profile", b"# from the image\n", owner=1000)
        _add_file(tar, "www/index.html", page)
        _add_file(
            tar, "www/cgi-bin/wait", b'#!/bin/sh\necho yes >"$HOME/asked"; exec sleep 1000\n', mode=0o755
        )
        _add_file(tar, "www/cgi-bin/notes", _NOTES, mode=0o755)
    return buffer.getvalue()


def bare_tar() -> bytes:
    """One program, under a name that nobody takes for a shell."""
    busybox = require_program("busybox", package="busybox-static")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder, owner in (("www", 0), ("home", 0), ("home/person", 1000)):
            _add_folder(tar, folder, owner=owner)
        tar.add(busybox, "busybox-server")  # it looks at its own name
        _add_file(tar, "www/index.html", b"a workspace\n")
    return buffer.getvalue()


def inside_tar() -> bytes:
    """The program that CodeHub runs in workspaces, and nothing else."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add_file(tar, "inside", require_inside().read_bytes(), mode=0o755)
    return buffer.getvalue()


def job_tar() -> bytes:
    binaries = [Path(PYTHON), require_program("tar", package="tar")]
    paths: dict[str, Path] = {}
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        base = Path(folder.replace(sys.prefix, sys.base_prefix))
        paths.update({str(each): each for each in _files_of(base)})
    for module in (obstore, pyfastcdc, zstandard):
        package = Path(str(module.__file__)).parent
        paths.update({f"{APP}/{each.relative_to(package.parent)}": each for each in _files_of(package)})
    paths[f"{APP}/typing_extensions.py"] = Path(str(typing_extensions.__file__))
    source = Path(codehub.__file__).parent.parent
    paths.update({f"{APP}/{each.relative_to(source)}": each for each in _source_files()})
    paths[f"{APP}/{JOB_SCRIPT.name}"] = JOB_SCRIPT
    paths.update({f"{APP}/tests/support/{each.name}": each for each in JOB_MODULES})
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


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, *, owner: int = 0, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.uid, member.gid = len(content), mode, owner, owner
    tar.addfile(member, io.BytesIO(content))


@contextmanager
def engine_lock(api: DockerApi, name: str) -> Iterator[None]:
    """Let one test process at a time make the images of this name on this engine."""
    mark = hashlib.sha256(api.address.encode()).hexdigest()[:12]
    with open(Path(tempfile.gettempdir()) / f"codehub-test-{name}-{mark}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
