"""What a record says about a process, and what half a record does not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codehub.domain.errors import EffectError
from codehub.runtimes.base import Address, FencingToken, UnixSocket
from codehub.runtimes.local.locks import admit, highest_token, keep_port, kept_port, open_lock
from codehub.runtimes.local.processes import ProcessIdentity, boot_id, find_stat, is_alive
from codehub.runtimes.local.records import UnreadableRecord, find_record, record_head


def identity_of_self() -> ProcessIdentity:
    stat = find_stat(os.getpid())
    assert stat is not None
    return ProcessIdentity(os.getpid(), stat.start_ticks, boot_id())


def write(path: Path, identity: ProcessIdentity) -> None:
    head = record_head(token=FencingToken(7, 8), port=20001, boot=identity.boot_id)
    path.write_text(f'{{"pid": {identity.pid}, "start_ticks": {identity.start_ticks}, {head}\n')


def test_a_record_names_its_process(tmp_path: Path) -> None:
    write(tmp_path / "record", identity_of_self())
    record = find_record(tmp_path / "record")
    assert record is not None
    assert (record.token, record.port) == (FencingToken(7, 8), 20001)
    assert is_alive(record.identity)


def test_a_record_of_a_version_without_sockets_speaks_of_a_port(tmp_path: Path) -> None:
    boot = "1e1e0b41-0a4a-4c5d-9a34-3a5a0e0f6f10"
    old = f'{{"pid": 7, "start_ticks": 8, "boot_id": "{boot}", "op_seq": 1, "epoch": 2, "port": 20001}}\n'
    (tmp_path / "record").write_text(old)
    record = find_record(tmp_path / "record")
    assert record is not None
    assert record.endpoint == Address("127.0.0.1", 20001)
    assert record_head(token=FencingToken(1, 2), port=20001, boot=boot) == old.partition("8, ")[2].strip()


def test_a_record_names_its_socket(tmp_path: Path) -> None:
    path = os.fsdecode(b"/run/with space/\xff/s")  # a name that is no UTF-8
    head = record_head(token=FencingToken(1, 2), port=20001, boot="boot", socket=Path(path))
    (tmp_path / "record").write_text(f'{{"pid": 7, "start_ticks": 8, {head}\n')
    record = find_record(tmp_path / "record")
    assert record is not None
    assert record.endpoint == UnixSocket(path)


@pytest.mark.parametrize(
    "other",
    [
        lambda me: ProcessIdentity(me.pid, me.start_ticks + 1, me.boot_id),  # the number was given out again
        lambda me: ProcessIdentity(me.pid, me.start_ticks, "another boot"),
        lambda me: ProcessIdentity(2**22 + 1, me.start_ticks, me.boot_id),  # no such process
    ],
)
def test_a_pid_alone_is_nobody(other: Callable[[ProcessIdentity], ProcessIdentity]) -> None:
    assert not is_alive(other(identity_of_self()))


def test_a_zombie_is_dead() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        stat = find_stat(pid)
        assert stat is not None
        assert not is_alive(ProcessIdentity(pid, stat.start_ticks, boot_id()))
    finally:
        os.waitpid(pid, 0)


def test_no_record_and_an_empty_one_are_no_process(tmp_path: Path) -> None:
    assert find_record(tmp_path / "none") is None
    (tmp_path / "empty").touch()
    assert find_record(tmp_path / "empty") is None


@pytest.mark.parametrize("content", ['{"pid": 1', "[]", '{"pid": "x"}', "\0\0\0"])
def test_half_a_record_is_a_question(tmp_path: Path, content: str) -> None:
    path = tmp_path / "record"
    path.write_text(content)
    with pytest.raises(UnreadableRecord):
        find_record(path)
    os.utime(path, (0, 0))  # torn by the power cut that ended that boot
    assert find_record(path) is None


def test_tokens_only_rise(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert highest_token(lock) < FencingToken(0, 0)
    lock_fd = open_lock(lock)
    for token in (FencingToken(3, 999), FencingToken(3, 999), FencingToken(4, 1), FencingToken(12, 2)):
        admit(lock_fd, token)
        assert highest_token(lock) == token
    with pytest.raises(EffectError):
        admit(lock_fd, FencingToken(4, 3))
    assert highest_token(lock) == FencingToken(12, 2)
    os.close(lock_fd)


def test_a_lock_remembers_a_port_beside_the_token(tmp_path: Path) -> None:
    lock_fd = open_lock(tmp_path / "lock")
    assert kept_port(lock_fd) is None
    keep_port(lock_fd, 20001)  # before there is a token
    admit(lock_fd, FencingToken(1, 1))
    assert kept_port(lock_fd) == 20001
    keep_port(lock_fd, 3000)
    assert kept_port(lock_fd) == 3000
    assert highest_token(tmp_path / "lock") == FencingToken(1, 1)
    keep_port(lock_fd, None)
    assert kept_port(lock_fd) is None
    os.close(lock_fd)


@pytest.mark.parametrize("content", [b"", b"12", b"\0\0\0", b"x y", b"1 2 3", b"\xff" * 99])
def test_half_a_token_is_none(tmp_path: Path, content: bytes) -> None:
    lock = tmp_path / "lock"
    lock.write_bytes(content)
    assert highest_token(lock) < FencingToken(0, 0)
    lock_fd = open_lock(lock)
    admit(lock_fd, FencingToken(1, 1))
    os.close(lock_fd)
    assert highest_token(lock) == FencingToken(1, 1)
