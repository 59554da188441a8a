"""The meta: written once, believed never without looking."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.archives.meta import ArchiveMeta, encode_meta, parse_meta
from codehub.domain.errors import EffectError, FailureCode, Reason

META = ArchiveMeta(
    sha256="0123456789abcdef" * 4,
    bytes=10,
    files=2,
    uncompressed_bytes=2048,
    skipped=1,
    created_at=datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
)


def test_what_is_written_is_read() -> None:
    assert parse_meta(encode_meta(META), key="k") == META


def changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(encode_meta(META)) | changes).encode()


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
    ],
)
def test_damage_is_lost_data(raw: bytes) -> None:
    with pytest.raises(EffectError) as caught:
        parse_meta(raw, key="the/key")
    assert caught.value.failure is FailureCode.CHECKSUM_MISMATCH
    assert caught.value.reason is Reason.DATA_LOST
    assert caught.value.context["archive_key"] == "the/key"


def test_a_newer_format_is_not_lost_data() -> None:
    with pytest.raises(EffectError, match="format version 2") as caught:
        parse_meta(changed(format_version=2), key="k")
    assert caught.value.reason is not Reason.DATA_LOST


@given(st.binary(max_size=200))
def test_noise_never_gets_through(raw: bytes) -> None:
    with pytest.raises(EffectError):
        parse_meta(raw, key="k")
