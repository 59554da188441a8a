"""The meta: written once, believed never without looking."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.archives.meta import ArchiveMeta, Binding, encode_meta, parse_meta
from codehub.domain.errors import EffectError, FailureCode, Reason

META = ArchiveMeta(
    sha256="0123456789abcdef" * 4,
    bytes=10,
    files=2,
    uncompressed_bytes=2048,
    skipped=1,
    created_at=datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    binding=Binding(UUID(int=1), UUID(int=2), "this-installation"),
)


def test_what_is_written_is_read() -> None:
    assert parse_meta(encode_meta(META), key="k") == META


def changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(encode_meta(META)) | changes).encode()


def without(field: str) -> bytes:
    document = json.loads(encode_meta(META))
    del document[field]
    return json.dumps(document).encode()


def test_a_meta_of_an_older_release_is_read_and_not_bound() -> None:
    old = json.loads(encode_meta(META))
    for field in ("workspace_id", "op_id", "installation_id"):
        del old[field]
    assert parse_meta(json.dumps(old).encode(), key="k") == replace(META, binding=None)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"{}",
        changed(sha256="0123"),
        changed(sha256="Z" * 64),
        changed(bytes=-1),
        changed(bytes="10"),
        changed(bytes=True),
        changed(files=1.5),
        changed(created_at="yesterday"),
        changed(created_at="2026-03-04T05:06:07"),
        changed(format_version=None),
        changed(format_version=10**4000),
        changed(format_version=0),
        changed(bytes=2**63),
        changed(bytes=10**4200),
        changed(created_at="2026" * 10_000),
        changed(created_at="\ud800"),
        changed(workspace_id="7"),
        changed(op_id=None),
        changed(op_id=7),
        changed(installation_id=""),
        changed(installation_id="x" * 101),
        changed(installation_id=["x"]),
        without("installation_id"),
        b'{"bytes": ' + b"9" * 60_000 + b"}",
        b'{"bytes": 1e999999}',
        b"[" * 30_000 + b"]" * 30_000,
        b'{"a": ' * 10_000 + b"1" + b"}" * 10_000,
    ],
    ids=lambda raw: repr(raw[:40]),
)
def test_damage_is_lost_data(raw: bytes) -> None:
    with pytest.raises(EffectError) as caught:
        parse_meta(raw, key="the/key")
    assert caught.value.failure is FailureCode.CHECKSUM_MISMATCH
    assert caught.value.reason is Reason.DATA_LOST
    assert caught.value.context["archive_key"] == "the/key"
    assert len(caught.value.message) < 100
    json.dumps(caught.value.context, ensure_ascii=False).encode()  # what a database takes


def test_a_newer_format_is_not_lost_data() -> None:
    with pytest.raises(EffectError, match="format version 3") as caught:
        parse_meta(changed(format_version=3), key="k")
    assert caught.value.reason is not Reason.DATA_LOST


@given(st.binary(max_size=200))
def test_noise_never_gets_through(raw: bytes) -> None:
    with pytest.raises(EffectError):
        parse_meta(raw, key="k")
