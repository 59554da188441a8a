"""The look at every member of a tar stream, whatever slices it comes in."""

import tarfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.archives.members import HostileArchive, MemberCheck
from tests.support.archive_forgery import member, tar_of

LONG = "n" * 180
HARMLESS = tar_of(
    member("./", tarfile.DIRTYPE),
    member("./file", size=1000),
    member("./empty"),
    member(f"./{LONG}/{LONG}", size=513),
    member("./link", tarfile.SYMTYPE, target="/anywhere/../at/all"),
    member("./hard", tarfile.LNKTYPE, target="./file"),
    member("./pipe", tarfile.FIFOTYPE),
    member("./..not-up", size=1),
    member("./link-neighbour"),
)


def check(raw: bytes, *, slices: int = 1 << 20) -> MemberCheck:
    checked = MemberCheck()
    for start in range(0, len(raw), slices):
        checked.feed(raw[start : start + slices])
    checked.finish()
    return checked


@pytest.mark.parametrize("slices", [1, 7, 511, 512, 513, 1 << 20])
def test_the_slices_do_not_matter(slices: int) -> None:
    checked = check(HARMLESS, slices=slices)
    assert (checked.files, checked.bytes) == (8, len(HARMLESS))


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_dialect(format: int) -> None:
    assert check(tar_of(member("a/b", size=5), member("c"), format=format)).files == 2


def test_sizes_beyond_octal_are_understood() -> None:
    big = tarfile.TarInfo("big")
    big.size = 9 * 1024**3
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        checked = MemberCheck()
        checked.feed(big.tobuf(format=format))
        assert checked.files == 1
        assert checked._skip == big.size


@pytest.mark.parametrize("keyword", ["path", "GNU.sparse.name"])
def test_every_name_a_header_offers_must_be_harmless(keyword: str) -> None:
    sly = member("looks/fine")
    sly.pax_headers = {keyword: "../../evil"}
    with pytest.raises(HostileArchive, match="unsafe name"):
        check(tar_of(sly))


def test_a_hardlink_with_a_second_target() -> None:
    sly = member("link", tarfile.LNKTYPE, target="fine")
    sly.pax_headers = {"linkpath": "/etc/shadow"}
    with pytest.raises(HostileArchive):
        check(tar_of(sly))


def test_a_link_that_comes_after_its_folder_was_seen() -> None:
    members = [member("a/b"), member("a", tarfile.SYMTYPE, target="/etc"), member("a/c")]
    with pytest.raises(HostileArchive, match="behind a symbolic link"):
        check(tar_of(*members))


def test_data_on_a_member_that_has_none() -> None:
    header = bytearray(member("link", tarfile.SYMTYPE, target="x").tobuf(format=tarfile.USTAR_FORMAT))
    header[124:136] = b"00000001000\0"
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(HostileArchive, match="data where none belongs"):
        check(bytes(header))


def test_a_wrong_header_checksum() -> None:
    broken = bytearray(HARMLESS)
    broken[3] ^= 1
    with pytest.raises(HostileArchive, match="checksum"):
        check(bytes(broken))


@pytest.mark.parametrize(
    "field", [b"-0000000001\0", b"+0000000001\0", b"0_000000001\0", b"0000008\0\0\0\0\0"]
)
def test_numbers_are_not_guessed(field: bytes) -> None:
    header = bytearray(member("x").tobuf(format=tarfile.USTAR_FORMAT))
    header[124:136] = field
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(HostileArchive, match="number"):
        check(bytes(header))


def test_nothing_may_follow_the_end() -> None:
    with pytest.raises(HostileArchive, match="after the end"):
        check(HARMLESS + member("more").tobuf())


@pytest.mark.parametrize("length", [0, 100, 512, 2000])
def test_an_end_in_the_middle(length: int) -> None:
    with pytest.raises(HostileArchive, match="middle"):
        check(HARMLESS[:length])


def test_an_extended_header_too_large_to_hold() -> None:
    header = bytearray(member("x", b"x").tobuf(format=tarfile.USTAR_FORMAT))
    header[124:136] = b"77777777777\0"
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(HostileArchive, match="extended header"):
        check(bytes(header))


@given(st.data())
def test_noise_is_refused_and_never_crashes(data: st.DataObject) -> None:
    broken = bytearray(HARMLESS)
    for _ in range(data.draw(st.integers(1, 20))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    with suppress(HostileArchive):
        check(bytes(broken))
