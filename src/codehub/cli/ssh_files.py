"""Keep what SSH needs beside the login file: the keys of hosts, and a name for this machine.

``known_hosts`` is CodeHub's own file: what it says comes from CodeHub, over the connection that the token is trusted
to, and the person's own file stays as it is.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from codehub.cli.failures import CommandError
from codehub.cli.login_file import file_path

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")


def known_hosts() -> Path:
    return file_path().with_name("known_hosts")


def remember_host(names: Iterable[str], key: str) -> None:
    """Write the key of a host under these names. Names that no host can have are left out."""
    wanted = {name.lower() for name in names if _PLAIN.fullmatch(name)}
    lines = [f"{name} {key.strip()}" for name in sorted(wanted)]
    path = known_hosts()
    with _locked(path):
        before = path.read_text("utf-8").splitlines() if path.exists() else []
        others = [line for line in before if line.partition(" ")[0] not in wanted]
        if set(before) >= set(lines) and len(others) + len(lines) == len(before):
            return
        unfinished = path.with_name(f".{path.name}.new")
        unfinished.write_text("\n".join([*others, *lines]) + "\n", "utf-8")
        unfinished.replace(path)  # at once: an ssh may be reading it


def client_id() -> str:
    """A random name of this machine and account, for CodeHub to know a client that comes back."""
    path = file_path().with_name("ssh-client-id")
    with _locked(path):
        if not path.exists():
            path.write_text(secrets.token_hex(16), "ascii")
        return path.read_text("ascii").strip()[:64]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock beside the file: several clients start at once."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path.with_name("ssh.lock"), os.O_CREAT | os.O_RDWR, 0o600), "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
