"""Homes with what people and tools really leave in them and what trips a careless walk: links to anything,
folders nobody may enter, names of every kind. Each oddity is a function that adds itself to a folder."""

import os
from collections.abc import Callable
from pathlib import Path

Oddity = Callable[[Path], None]


def link_to_a_target_longer_than_a_name(folder: Path) -> None:
    (folder / "link-too-long").symlink_to("t" * 300)


def link_to_a_path_longer_than_a_path(folder: Path) -> None:
    (folder / "link-long-path").symlink_to("/".join(["t" * 200] * 20))


def link_to_itself(folder: Path) -> None:
    (folder / "link-to-itself").symlink_to("link-to-itself")


def links_in_a_circle(folder: Path) -> None:
    (folder / "circle-a").symlink_to("circle-b")
    (folder / "circle-b").symlink_to("circle-a")


def link_through_a_file(folder: Path) -> None:
    (folder / "file").write_bytes(b"not a folder")
    (folder / "link-through-a-file").symlink_to("file/below")


def link_into_a_closed_folder(folder: Path) -> None:
    closed = folder / "closed-target"
    closed.mkdir()
    (closed / "inner").mkdir()
    (folder / "link-into-closed").symlink_to("closed-target/inner")
    closed.chmod(0o500)


def link_to_a_folder_outside(folder: Path) -> None:
    (folder / "link-outside").symlink_to("/etc")


def link_nowhere(folder: Path) -> None:
    (folder / "link-nowhere").symlink_to("no/such/place")


def read_only_folders(folder: Path) -> None:
    inner = folder / "read-only" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_bytes(b"x")
    inner.chmod(0o555)
    (folder / "read-only").chmod(0o555)


def closed_to_its_owner(folder: Path) -> None:
    """Mode 000: of a file, and of a folder with something in it."""
    (folder / "closed-file").write_bytes(b"x")
    (folder / "closed-file").chmod(0)
    (folder / "closed" / "inner").mkdir(parents=True)
    (folder / "closed" / "file").write_bytes(b"x")
    (folder / "closed" / "inner").chmod(0)
    (folder / "closed").chmod(0)


def deep_folders(folder: Path) -> None:
    deepest = folder.joinpath("deep-a", *["d" * 40] * 8)
    deepest.mkdir(parents=True)
    (deepest / "leaf").write_bytes(b"x")


def very_deep_folders(folder: Path) -> None:
    """Deeper than Python's recursion, shorter than a path may be."""
    deepest = folder / "deep"
    deepest.mkdir()
    where = os.open(deepest, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=where)
        below = os.open("d", os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = below
    os.close(os.open("leaf", os.O_WRONLY | os.O_CREAT, dir_fd=where))
    os.close(where)


def names_of_every_kind(folder: Path) -> None:
    for raw in (
        b"-rf",
        b"new\nline",
        b"broken-\xff",
        b"\xe4\xf6\xfc",
        b"*",
        b"a" * 255,
        b".codehub-restore-mine",
    ):
        with open(os.path.join(os.fsencode(folder), raw), "wb") as file:
            file.write(raw)


def a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def hard_links(folder: Path) -> None:
    (folder / "one").write_bytes(b"1")
    os.link(folder / "one", folder / "two")


ODDITIES: dict[str, Oddity] = {
    oddity.__name__: oddity
    for oddity in (
        link_to_a_target_longer_than_a_name,
        link_to_a_path_longer_than_a_path,
        link_to_itself,
        links_in_a_circle,
        link_through_a_file,
        link_into_a_closed_folder,
        link_to_a_folder_outside,
        link_nowhere,
        read_only_folders,
        deep_folders,
        very_deep_folders,
        names_of_every_kind,
        a_pipe,
        hard_links,
    )
}
if os.geteuid() == 0:  # others can neither archive nor compare it
    ODDITIES[closed_to_its_owner.__name__] = closed_to_its_owner

SHALLOW = sorted(set(ODDITIES) - {very_deep_folders.__name__})
"""Without the thousand folders, which are thousands of steps: tests of their own."""


def make_odd_home(home: Path, oddities: list[str], *, mode: int = 0o755, nested: bool = False) -> None:
    """A home of these, at its top and, if ``nested``, once more one folder down."""
    home.mkdir(exist_ok=True)
    (home / "plain").write_bytes(b"plain")
    for name in oddities:
        ODDITIES[name](home)
    if nested:
        (home / "below").mkdir()
        for name in oddities:
            ODDITIES[name](home / "below")
    home.chmod(mode)
