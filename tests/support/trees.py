"""Homes for tests: one with every kind of file there is, and an exact comparison of two homes."""

import os
import random
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SPARSE_BYTES = 64 * 1024 * 1024
_LONG = "d" * 120


@dataclass(frozen=True)
class Entry:
    """Everything about one file that an archive has to keep."""

    kind: str
    mode: int
    mtime_ns: int
    owner: tuple[int, int]
    content: bytes | None
    target: bytes | None
    links: int
    xattrs: tuple[tuple[str, bytes], ...]


def make_every_kind(home: Path) -> None:
    """Fill ``home``. Needs no privilege."""
    rng = random.Random(7)
    home.mkdir(parents=True, exist_ok=True)
    (home / "plain.txt").write_bytes(b"hello\n")
    (home / "empty").write_bytes(b"")
    (home / "random.bin").write_bytes(rng.randbytes(3_000_001))
    (home / "script.sh").write_bytes(b"#!/bin/sh\n")
    (home / "script.sh").chmod(0o4751)
    (home / "secret").write_bytes(b"s")
    (home / "secret").chmod(0o400)
    (home / "empty folder" / "inner").mkdir(parents=True)
    (home / "read-only").mkdir()
    (home / "read-only" / "file").write_bytes(b"x")
    _make_names(home / "names")
    _make_links(home)
    os.mkfifo(home / "fifo", 0o640)
    with (home / "sparse").open("wb") as sparse:
        sparse.write(b"head")
        sparse.seek(SPARSE_BYTES // 2)
        sparse.write(b"middle")
        sparse.truncate(SPARSE_BYTES)
    os.setxattr(home / "plain.txt", "user.note", b"\x00binary\xff")
    os.setxattr(home / "names", "user.folder", b"yes")
    os.utime(home / "plain.txt", ns=(1, 987_654_321_123_456_789))
    os.utime(home / "empty", ns=(1, 1))
    os.utime(home / "link-absolute", ns=(1, 500_000_000_000_000_007), follow_symlinks=False)
    (home / "read-only").chmod(0o555)
    os.utime(home / "read-only", ns=(1, 400_000_000_000_000_003))
    home.chmod(0o750)
    os.utime(home, ns=(1, 300_000_000_000_000_001))


def make_socket(home: Path) -> None:
    """A socket at ``home/agent.sock``, however long the path of ``home`` is."""
    folder = os.open(home, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{folder}/agent.sock")
    finally:
        os.close(folder)


def snapshot(home: Path) -> dict[bytes, Entry]:
    """Every entry below ``home`` (and itself, as ``.``), by its name in bytes."""
    root = os.fsencode(home)
    return {b".": _entry(root)} | {path[len(root) + 1 :]: _entry(path) for path in _everything_below(root)}


def hardlink_groups(home: Path) -> set[frozenset[bytes]]:
    """Which names are one file."""
    groups: dict[int, set[bytes]] = {}
    root = os.fsencode(home)
    for path in _everything_below(root):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            groups.setdefault(os.lstat(path).st_ino, set()).add(path[len(root) + 1 :])
    return {frozenset(group) for group in groups.values() if len(group) > 1}


def _everything_below(root: bytes) -> Iterator[bytes]:
    """Without recursion (``os.walk`` has it), and never through a link."""
    folders = [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                yield entry.path


def _make_names(folder: Path) -> None:
    folder.mkdir()
    for name in ("with space", "new\nline", "-dash", "--checkpoint=1", "*?[glob]", "quote'\"\\", "üñí한글"):
        (folder / name).write_bytes(name.encode())
    for raw in (b"latin-\xe4", b"broken-\xff\xfe", b"ends-with-backslash\\", b"a" * 255):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), raw))).write_bytes(raw)
    deep = folder / _LONG / _LONG / _LONG
    deep.mkdir(parents=True)
    (deep / ("f" * 200)).write_bytes(b"deep")
    (folder / "long-link").symlink_to("/" + "t" * 300)


def _make_links(home: Path) -> None:
    (home / "link-relative").symlink_to("plain.txt")
    (home / "link-absolute").symlink_to("/usr/bin/env")
    (home / "link-up").symlink_to("../../../etc/passwd")
    (home / "link-dangling").symlink_to("nowhere")
    (home / "link-folder").symlink_to("empty folder")
    (home / "link-raw").symlink_to(os.fsdecode(b"odd-\xff"))
    os.link(home / "random.bin", home / "names" / "hardlink")
    os.link(home / "link-absolute", home / "names" / "hardlink-to-link", follow_symlinks=False)


def _entry(path: bytes) -> Entry:
    status = os.lstat(path)
    regular, link = stat.S_ISREG(status.st_mode), stat.S_ISLNK(status.st_mode)
    names = [] if link else os.listxattr(path, follow_symlinks=False)
    content = None
    if regular:
        with open(path, "rb") as file:
            content = file.read()
    return Entry(
        kind=stat.filemode(status.st_mode)[0],
        mode=stat.S_IMODE(status.st_mode),
        mtime_ns=status.st_mtime_ns,
        owner=(status.st_uid, status.st_gid),
        content=content,
        target=os.readlink(path) if link else None,
        links=0 if stat.S_ISDIR(status.st_mode) else status.st_nlink,
        xattrs=tuple((name, os.getxattr(path, name)) for name in sorted(names) if name.startswith("user.")),
    )
