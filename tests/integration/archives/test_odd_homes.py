"""Odd homes, and a kill at every step of the swap: the next try always finishes, and the home is exactly the
new one.

Both kinds of swap: beside the volume (local) and inside it (Docker), as root and as an ordinary user.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from codehub.archives.swap import BesideVolume, StagingPlace, WithinVolume
from tests.support.killed_at import killed_before_step
from tests.support.odd_homes import ODDITIES, SHALLOW, make_odd_home
from tests.support.storage_job import StorageJobEnvironment
from tests.support.trees import Entry, snapshot

NOBODY = 65534
MEMORY = Path("/dev/shm")
KINDS = ["beside", "inside"]
USERS = [None, NOBODY] if os.geteuid() == 0 else [None]

odd_homes = st.lists(st.sampled_from(SHALLOW), min_size=1, max_size=4, unique=True)


@pytest.fixture
def shared_directory() -> Iterator[Path]:
    """A folder that another user may reach too, which pytest's own are not. In memory where that can be: a
    swap ends with a sync of its whole file system, and hundreds of those wait for whatever else the disk
    does."""
    root = Path(tempfile.mkdtemp(prefix="codehub-odd-", dir=MEMORY if MEMORY.is_dir() else None))
    root.chmod(0o755)
    yield root
    clear(root)


def clear(path: Path) -> None:
    """By a program that has met every kind of home."""
    subprocess.run(["rm", "-rf", "--", path], check=True)


def place_in(directory: Path, kind: str) -> StagingPlace:
    if kind == "beside":
        return BesideVolume(directory / "volume", staging=directory / "staging")
    return WithinVolume(directory / "volume")


def stage(directory: Path, kind: str, fill: Callable[[Path], None]) -> Path:
    """What a restore does before the swap, the archive apart."""
    place = place_in(directory, kind)
    place.sweep()
    home = place.make()
    fill(home)
    place.make_durable(home)
    return home


def restore(directory: Path, kind: str, fill: Callable[[Path], None]) -> None:
    place_in(directory, kind).publish(stage(directory, kind, fill))


def kill_at_every_step(
    root: Path, kind: str, *, uid: int | None, fill: Callable[[Path], None], stride: int = 1
) -> None:
    """Before its first, second, … step, until it ends by itself; each time the next try makes it good."""
    for step in count(1, stride):
        directory = root / str(step)
        directory.mkdir()
        if uid is not None:
            os.chown(directory, uid, uid)
        staged = directory / "home-to-publish"

        def prepare(directory: Path = directory, staged: Path = staged) -> None:
            fill(directory / "volume")
            staged.symlink_to(stage(directory, kind, fill))

        def swap(directory: Path = directory, staged: Path = staged) -> None:
            place_in(directory, kind).publish(Path(os.readlink(staged)))

        killed = killed_before_step(swap, step, uid=uid, prepare=prepare)
        if killed:
            assert not killed_before_step(partial(restore, directory, kind, fill), None, uid=uid)
        fill(root / f"wanted-{step}")
        assert without_times(snapshot(directory / "volume")) == without_times(
            snapshot(root / f"wanted-{step}")
        )
        assert kind == "inside" or os.listdir(directory / "staging") == []
        if not killed:
            assert step > 5, "the swap has more steps than that: are they counted?"
            return


def without_times(found: dict[bytes, Entry]) -> dict[bytes, tuple[object, ...]]:
    """Each try makes its files anew, at its own time."""
    return {
        name: (each.kind, each.mode, each.content, each.target, each.links) for name, each in found.items()
    }


def new_directory(shared_directory: Path) -> Path:
    root = Path(tempfile.mkdtemp(dir=shared_directory))
    root.chmod(0o755)
    return root


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(oddities=["link_to_a_target_longer_than_a_name"], nested=False, mode=0o755, uid=None)
@given(
    oddities=odd_homes, nested=st.booleans(), mode=st.sampled_from([0o755, 0o500]), uid=st.sampled_from(USERS)
)
def test_odd_homes_and_a_kill_at_every_step_of_the_swap(
    shared_directory: Path, kind: str, oddities: list[str], nested: bool, mode: int, uid: int | None
) -> None:
    fill = partial(make_odd_home, oddities=oddities, nested=nested, mode=mode)
    kill_at_every_step(new_directory(shared_directory), kind, uid=uid, fill=fill)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("uid", USERS)
def test_every_oddity_at_once(shared_directory: Path, kind: str, uid: int | None) -> None:
    fill = partial(make_odd_home, oddities=SHALLOW, nested=True, mode=0o500)
    kill_at_every_step(shared_directory, kind, uid=uid, fill=fill, stride=29)


@pytest.mark.parametrize("kind", KINDS)
def test_folders_deeper_than_recursion_goes(shared_directory: Path, kind: str) -> None:
    fill = partial(make_odd_home, oddities=["very_deep_folders"])
    kill_at_every_step(shared_directory, kind, uid=USERS[-1], fill=fill, stride=1999)


@pytest.mark.parametrize("swap", ["exchange", "inside"])
def test_a_home_of_every_oddity_goes_into_its_archive_and_comes_back_twice(
    shared_directory: Path, swap: str
) -> None:
    (shared_directory / "archives").mkdir()
    environment = StorageJobEnvironment(
        root=shared_directory, archive_url=f"file://{shared_directory / 'archives'}"
    )
    make_odd_home(environment.volume, sorted(ODDITIES), nested=True)
    before = snapshot(environment.volume)
    key = environment.archive().key
    for _ in range(2):
        assert environment.restore(key, swap=swap).done
        assert snapshot(environment.volume) == before
