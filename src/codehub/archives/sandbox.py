"""Confine tar to the volume with a Landlock ruleset.

Landlock is the kernel's own sandbox for unprivileged processes (Linux 5.13; version 2 of its interface, Linux
5.19, is needed to make hardlinks between folders). It needs no helper program, no namespace and no root,
works inside containers, and keeps file owners, which a user namespace would not. Inside, tar may read its own
program and libraries, read (packing) or fill (unpacking) one directory, and open no other file, connect
nowhere, make no device.

It is the third line of defence: archives are checked member by member before tar reads them (``members``),
and GNU tar itself refuses to leave its directory. Where the kernel has no Landlock, the first two remain.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

NEEDED_VERSION = 2

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_RULE_PATH_BENEATH = 1
_ASK_FOR_VERSION = 1
_NO_NEW_PRIVILEGES = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_FIFO, _MAKE_SYMLINK, _LINK_ACROSS, _TRUNCATE = 1 << 10, 1 << 12, 1 << 13, 1 << 14
_READING = _READ_FILE | _READ_DIR
# At every open the kernel also checks whether truncating is allowed, walking up to the root of the file system if no
# rule says so. tar never truncates what it packs; allowing it here halves that cost per file.
_PACKING = _READING | _TRUNCATE
_FILLING = (
    _READING | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_FILE | _MAKE_FIFO
    | _MAKE_SYMLINK | _LINK_ACROSS | _TRUNCATE
)  # fmt: skip
_ALL_BY_VERSION = {2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_TCP = 0b11  # bind and connect
_SCOPES = 0b11  # abstract sockets of and signals to others
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/nix/store")


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@cache
def sandbox_version() -> int:
    """Return the version of Landlock's interface in this kernel; 0: none."""
    if not sys.platform.startswith("linux"):
        return 0
    version: int = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_FOR_VERSION)
    return max(0, version)


@contextmanager
def confinement(directory: Path, *, program: str, writable: bool) -> Iterator[Callable[[], None] | None]:
    """Yield the function that confines a child between fork and exec.

    None where the kernel does not support it.
    """
    if sandbox_version() < NEEDED_VERSION:
        yield None
        return
    ruleset = _make_ruleset()
    try:
        for system in (*_SYSTEM, os.path.dirname(os.path.realpath(program)), os.path.dirname(program)):
            _allow(ruleset, system, _READING | _EXECUTE)
        _allow(ruleset, os.fspath(directory), _FILLING if writable else _PACKING)
        libc = _libc()

        def confine() -> None:
            """Make only two system calls: between fork and exec little else is safe."""
            if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, ruleset, 0):
                os._exit(126)

        yield confine
    finally:
        os.close(ruleset)


def _make_ruleset() -> int:
    version = sandbox_version()
    rules = _Ruleset(files=_ALL_BY_VERSION.get(version, _ALL_BY_VERSION[5]), network=_TCP, scoped=_SCOPES)
    size = 8 if version < 4 else 16 if version < 6 else 24  # older kernels have fewer fields
    return _checked(_libc().syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0))


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # not every system has every folder
    try:
        if not os.path.isdir(path):
            rights &= _READ_FILE | _WRITE_FILE | _EXECUTE
        if sandbox_version() < 3:
            rights &= ~_TRUNCATE
        rule = _PathBeneath(allowed=rights, parent=parent)
        _checked(_libc().syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(parent)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
