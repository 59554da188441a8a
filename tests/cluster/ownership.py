"""Who a cluster belongs to, written down where the next start finds it.

A cluster belongs to the process that started it and is a leftover once that process has ended. One that was told to
stay (``python -m tests.cluster up``) belongs to nobody and is left alone.
"""

import fcntl
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import machine, network
from tests.cluster.binary import Programs
from tests.cluster.processes import Process
from tests.cluster.settings import HOME, Layout


@dataclass(frozen=True)
class Deed:
    """A cluster's file: its slot, its programs, its owner."""

    name: str
    slot: int
    programs: Programs
    owner: Process | None

    @property
    def layout(self) -> Layout:
        return Layout(self.name, self.slot)

    @property
    def is_leftover(self) -> bool:
        return self.owner is not None and not self.owner.alive

    def write(self) -> None:
        """Atomic: whoever dies in here leaves the file as it was."""
        owner = None if self.owner is None else [self.owner.pid, self.owner.started]
        programs = {"kubernetes": str(self.programs.kubernetes), "policies": str(self.programs.policies)}
        new = HOME / self.name / "cluster.new"
        new.write_text(json.dumps({"slot": self.slot, "programs": programs, "owner": owner}))
        new.rename(HOME / self.name / "cluster.json")

    @classmethod
    def get(cls, name: str) -> "Deed":
        if (deed := cls.find(name)) is None:
            raise RuntimeError(f"no cluster is named {name}")
        return deed

    @classmethod
    def find(cls, name: str) -> "Deed | None":
        try:
            written = json.loads((HOME / name / "cluster.json").read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        owner = None if written["owner"] is None else Process(*written["owner"])
        programs = {program: Path(path) for program, path in written["programs"].items()}
        return cls(name, written["slot"], Programs(**programs), owner)


@contextmanager
def machine_lock() -> Iterator[None]:
    """Only one process at a time claims a slot or gives it back. The kernel releases it if that process dies."""
    with open(Path(tempfile.gettempdir()) / "codehub-cluster.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def claim(name: str, programs: Programs, owner: Process | None) -> Deed:
    """Take a name and a slot. With the machine's lock.

    Dying in here leaves a directory without a file in it, or a bridge without a cluster: ``forget_unfinished_claims``.
    """
    machine.save_kernel_settings()
    (HOME / name).mkdir(mode=0o711)
    deed = Deed(name, network.claim_slot(), programs, owner)
    deed.write()
    return deed


def all_deeds() -> list[Deed]:
    if not HOME.exists():
        return []
    return [deed for each in sorted(HOME.iterdir()) if (deed := Deed.find(each.name)) is not None]


def forget_unfinished_claims() -> None:
    """Remove what a claim leaves that died half-way. With the machine's lock: no other claim is under way."""
    if HOME.exists():
        for each in HOME.iterdir():
            if each.is_dir() and Deed.find(each.name) is None:
                shutil.rmtree(each)
    claimed = {deed.slot for deed in all_deeds()}
    for slot in set(network.bridges()) - claimed:
        network.remove_network(Layout("", slot))
