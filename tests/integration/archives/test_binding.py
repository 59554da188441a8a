"""An archive is bound to its workspace: nothing else in its place is restored, nor adopted as its own."""

import json
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import zstandard

from codehub.archives.keys import parse_archive_key
from tests.support.archive_forgery import meta_of, plant, tar_of
from tests.support.storage_job import StorageJobEnvironment

HOME = b"precious"


@pytest.fixture
def store(environment: StorageJobEnvironment) -> Path:
    return environment.root / "archives"


@pytest.fixture
def home(environment: StorageJobEnvironment) -> Path:
    environment.volume.mkdir()
    (environment.volume / "file").write_bytes(HOME)
    return environment.volume


def rewrite_meta(store: Path, key: str, **changes: Any) -> None:
    path = store / f"{key}.meta"
    document = json.loads(path.read_bytes()) | changes
    path.write_text(json.dumps({name: value for name, value in document.items() if value is not ...}))


def put_over(store: Path, key: str, other: str) -> None:
    """What somebody with write access to the bucket can do."""
    for suffix in ("", ".meta"):
        shutil.copy(store / f"{other}{suffix}", store / f"{key}{suffix}")


def assert_lost(
    environment: StorageJobEnvironment, key: str, words: str, *, sha256: str | None = None
) -> None:
    failed = environment.restore(key, archive_sha256=sha256).failed
    assert (failed["code"], failed["context"]["archive_key"]) == ("ARCHIVE_MISMATCH", key)
    assert words in failed["message"]
    assert (environment.volume / "file").read_bytes() == HOME
    assert not environment.staging.exists() or list(environment.staging.iterdir()) == []


def test_a_meta_says_whose_archive_it_is(environment: StorageJobEnvironment, store: Path, home: Path) -> None:
    op_id = uuid4()
    done = environment.archive(op_id).done
    meta = json.loads((store / f"{done['archive_key']}.meta").read_bytes())
    assert (meta["workspace_id"], meta["op_id"]) == (str(environment.workspace_id), str(op_id))
    assert meta["installation_id"] == environment.installation_id
    assert meta["sha256"] == done["sha256"]


def test_another_workspaces_archive_in_its_place(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    mine = environment.archive().done
    other = environment.with_(workspace_id=uuid4()).archive().key
    put_over(store, mine["archive_key"], other)
    assert_lost(environment, mine["archive_key"], "another workspace", sha256=mine["sha256"])
    assert_lost(environment, mine["archive_key"], "another workspace")  # also where the row knows no checksum


def test_an_older_generation_in_its_place(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    older = environment.archive().key
    (home / "file").write_bytes(HOME)
    newer = environment.archive().done
    put_over(store, newer["archive_key"], older)
    assert_lost(environment, newer["archive_key"], "another operation", sha256=newer["sha256"])


def test_an_archive_of_another_installation(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    key = environment.archive().key
    assert_lost(environment.with_(installation_id="another"), key, "another installation")


def test_an_empty_archive_with_a_matching_meta(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    mine = environment.archive().done
    raw = zstandard.ZstdCompressor().compress(tar_of())
    (store / mine["archive_key"]).write_bytes(raw)
    empty = meta_of(raw)
    rewrite_meta(store, mine["archive_key"], sha256=empty.sha256, bytes=empty.bytes, files=0)
    assert_lost(environment, mine["archive_key"], "checksum", sha256=mine["sha256"])


def test_a_meta_stripped_of_its_names_does_not_pass_for_an_old_one(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    mine = environment.archive().done
    other = environment.with_(workspace_id=uuid4())
    (home / "file").write_bytes(b"theirs")
    theirs = other.archive().key
    (home / "file").write_bytes(HOME)
    put_over(store, mine["archive_key"], theirs)
    rewrite_meta(store, mine["archive_key"], workspace_id=..., op_id=..., installation_id=...)
    assert_lost(environment, mine["archive_key"], "checksum", sha256=mine["sha256"])


def test_a_key_of_another_workspace(environment: StorageJobEnvironment, store: Path, home: Path) -> None:
    key = environment.with_(workspace_id=uuid4()).archive().key
    assert_lost(environment, key, "another workspace")


def test_an_archive_of_an_older_release_is_restored_and_said_to_be_unbound(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    key = environment.archive().key
    assert environment.restore(key).done["bound"] is True
    rewrite_meta(store, key, workspace_id=..., op_id=..., installation_id=...)
    assert environment.restore(key).done["bound"] is False


def test_only_what_is_its_own_is_adopted(environment: StorageJobEnvironment, store: Path, home: Path) -> None:
    """A committed attempt under the operation's folder that is not its own: a new one is made beside it."""
    op_id = uuid4()
    other = environment.with_(workspace_id=uuid4()).archive().key
    first = environment.archive(op_id).done
    assert environment.archive(op_id).done["reused"] is True  # its own: idempotent, with the same checksum
    assert environment.archive(op_id).done["sha256"] == first["sha256"]
    put_over(store, first["archive_key"], other)
    again = environment.archive(op_id).done
    assert (again["reused"], again["sha256"] != "") == (False, True)
    assert again["archive_key"] != first["archive_key"]
    assert environment.restore(again["archive_key"], archive_sha256=again["sha256"]).done


@pytest.mark.parametrize("raw", [b"{", b"[" * 20_000], ids=["damaged", "nested"])
def test_a_damaged_attempt_keeps_no_new_one_from_being_made(
    environment: StorageJobEnvironment, store: Path, home: Path, raw: bytes
) -> None:
    op_id = uuid4()
    first = environment.archive(op_id).key
    (store / f"{first}.meta").write_bytes(raw)
    assert environment.archive(op_id).done["reused"] is False


@pytest.mark.parametrize("raw", [b"[" * 30_000, b'{"bytes": ' + b"9" * 60_000 + b"}"], ids=["deep", "huge"])
def test_a_meta_that_breaks_parsers_is_lost_data_in_few_words(
    environment: StorageJobEnvironment, store: Path, home: Path, raw: bytes
) -> None:
    key = environment.archive().key
    (store / f"{key}.meta").write_bytes(raw)
    failed = environment.restore(key).failed
    assert failed["code"] == "CHECKSUM_MISMATCH"
    assert len(failed["message"]) < 100


def test_a_planted_archive_lies_where_its_key_says(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    """The forgeries of the other tests have no binding: they must be refused for what they hold."""
    path = plant(store, environment.workspace_id, zstandard.ZstdCompressor().compress(tar_of()))
    parsed = parse_archive_key(path.key)
    assert parsed is not None
    assert isinstance(parsed.op_id, UUID)


def test_a_copy_is_restored_from_its_source_and_from_nothing_else(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    source = environment.workspace_id
    theirs = environment.archive().done
    key, sha256 = theirs["archive_key"], theirs["sha256"]
    copy = environment.with_(workspace_id=uuid4())

    def refused(words: str, **given: Any) -> None:
        failed = copy.restore(key, **{"archive_sha256": sha256, **given}).failed
        assert failed["code"] == "ARCHIVE_MISMATCH"
        assert words in failed["message"]

    refused("the folder of another workspace")  # the row vouches for no source
    refused("the folder of another workspace", archive_source_id=str(uuid4()))
    refused("checksum", archive_source_id=str(source), archive_sha256=None)
    refused("checksum", archive_source_id=str(source), archive_sha256="0" * 64)
    done = copy.restore(key, archive_sha256=sha256, archive_source_id=str(source)).done
    assert done["archive_key"] == key
    assert (copy.volume / "file").read_bytes() == HOME
    rewrite_meta(store, key, workspace_id=..., op_id=..., installation_id=...)
    refused("name their workspace", archive_source_id=str(source))
