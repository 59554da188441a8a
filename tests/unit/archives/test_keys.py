"""Names of archives: what is ours parses, what merely looks like it does not."""

from uuid import UUID

import pytest

from codehub.archives.keys import ArchivePath, new_attempt, parse_archive_key, parse_key, prefix_of

WORKSPACE = UUID("0b5f0a4e-8a3e-4f3e-9d6b-0f4a6f1f2a3b")
OP = UUID("d2719f6c-5d0c-4a52-8f0e-6a7c3c1b9e11")
ATTEMPT = "019a8c7e5b2f7c3d8e9f0a1b2c3d4e5f"
KEY = f"{WORKSPACE}/{OP}/{ATTEMPT}/home.tar.zst"


def test_a_key_and_its_meta_parse_to_the_same_path() -> None:
    path = ArchivePath(WORKSPACE, OP, ATTEMPT)
    assert path.key == KEY
    for key, is_meta in ((path.key, False), (path.meta_key, True)):
        parsed = parse_key(key)
        assert parsed is not None
        assert (parsed.path, parsed.is_meta) == (path, is_meta)


@pytest.mark.parametrize(
    "key",
    [
        "",
        KEY.upper(),
        f"/{KEY}",
        f"{KEY}/",
        f"{KEY}\n",
        f"{KEY}.meta.meta",
        f"{KEY}#1",
        f"prefix/{KEY}",
        KEY.replace("home", "Home"),
        KEY.replace(ATTEMPT, "1"),
        KEY.replace(ATTEMPT, ".."),
        KEY.replace(str(OP), OP.hex),
        KEY.replace(str(OP), f"{{{OP}}}"),
        f"{WORKSPACE}/{OP}/home.tar.zst",
    ],
)
def test_anything_else_is_a_stranger(key: str) -> None:
    assert parse_key(key) is None


def test_an_archive_key_is_never_a_meta() -> None:
    assert parse_archive_key(KEY) == ArchivePath(WORKSPACE, OP, ATTEMPT)
    assert parse_archive_key(f"{KEY}.meta") is None


def test_attempts_never_share_a_path() -> None:
    paths = {new_attempt(WORKSPACE, OP) for _ in range(10_000)}
    assert len(paths) == 10_000
    assert all(parse_archive_key(path.key) == path for path in paths)
    assert all(path.key.startswith(prefix_of(WORKSPACE, OP) + "/") for path in paths)
