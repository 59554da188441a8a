"""What workspaces run on, as a round sees it from outside: where homes lie, what runs, where archives are.

``LocalSetup`` has processes of this machine and an S3 store behind a proxy that can break. ``DockerSetup``
has a Docker engine of its own, which can be killed, and keeps archives in a directory: storage jobs of an
engine without a network could not reach anything else.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.support.docker_api import DockerApi
from tests.support.docker_images import ensure_images, image
from tests.support.faulty_http import FaultyProxy, faulty_proxy
from tests.support.local_environment import server_command
from tests.support.object_stores import ACCESS_KEY, SECRET_KEY, rclone_server
from tests.support.private_dockerd import PrivateDockerd

_TINY = "tiny"


class RuntimeSetup(Protocol):
    @property
    def image(self) -> str: ...

    @property
    def archives(self) -> Path:
        """Where the store keeps its objects."""

    def settings(self) -> Mapping[str, str]: ...

    def home(self, workspace_id: str) -> Path: ...

    def homes(self) -> list[Path]: ...

    def servers(self) -> list[str]:
        """The workspace of every server that runs; one with two servers is named twice."""

    def doubled(self) -> list[str]:
        """Workspaces that have two servers at this very moment, whatever else goes on."""


class LocalSetup:
    image = _TINY

    def __init__(self, data_dir: Path, store: FaultyProxy, archives: Path) -> None:
        self._data_dir = data_dir
        self.store = store
        self.archives = archives

    def settings(self) -> Mapping[str, str]:
        return {
            "LOCAL_IMAGES": json.dumps({_TINY: server_command()}),
            "ARCHIVE_URL": "s3://bucket/archives",
            "AWS_ENDPOINT_URL": self.store.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
        }

    def home(self, workspace_id: str) -> Path:
        return self._data_dir / "volumes" / f"ws-{workspace_id}-home"

    def homes(self) -> list[Path]:
        return list((self._data_dir / "volumes").glob("ws-*-home"))

    def servers(self) -> list[str]:
        return list(self._processes().values())

    def doubled(self) -> list[str]:
        # A look at all processes takes a moment, in which one may end and the next begin: both must be there
        # in a second look, too.
        first = self._processes()
        suspects = {each for each, count in Counter(first.values()).items() if count > 1}
        if not suspects:
            return []
        second = self._processes()
        still = Counter(first[pid] for pid in first.keys() & second.keys())
        return [each for each in suspects if still[each] > 1]

    def end_servers(self) -> None:
        """They outlive their replicas by design, and the round not."""
        for pid in self._processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _processes(self) -> dict[int, str]:
        """pid → workspace. The sandbox around a server is not a second server."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if b"bwrap" in command[0] or not any(part.endswith(b"tiny_server.py") for part in command):
                    continue
                variables = dict(
                    each.partition(b"=")[::2] for each in (entry / "environ").read_bytes().split(b"\0")
                )
            except OSError:
                continue
            if variables.get(b"HOME", b"").startswith(bytes(self._data_dir)):
                found[int(entry.name)] = variables[b"CODEHUB_WORKSPACE_ID"].decode()
        return found


class DockerSetup:
    def __init__(self, engine: PrivateDockerd, archives: Path) -> None:
        self.engine = engine
        self.image = image(_TINY)
        self.archives = archives
        self._api = DockerApi(engine.address)

    def settings(self) -> Mapping[str, str]:
        return {
            "CODEHUB_RUNTIME": "docker",
            "DOCKER_HOST": self.engine.address,
            "DOCKER_IMAGES": self.image,
            "DOCKER_JOB_IMAGE": image("job"),
            "ARCHIVE_URL": f"file://{self.archives}",
        }

    def home(self, workspace_id: str) -> Path:
        return self._volumes / f"ws-{workspace_id}-home" / "_data"

    def homes(self) -> list[Path]:
        return list(self._volumes.glob("ws-*-home"))

    def servers(self) -> list[str]:
        names = [each["Names"][0].removeprefix("/ws-") for each in self._api.call("GET", "/containers/json")]
        return [name for name in names if not name.endswith("-job")]

    def doubled(self) -> list[str]:
        return []  # the engine has one container of a name at most

    @property
    def _volumes(self) -> Path:
        return self.engine.root / "data" / "volumes"


@contextmanager
def local_setup(directory: Path) -> Iterator[LocalSetup]:
    bucket = directory / "store" / "bucket"
    bucket.mkdir(parents=True)
    with rclone_server(bucket.parent) as s3, faulty_proxy(s3.endpoint) as store:
        setup = LocalSetup(directory / "data", store, bucket / "archives")
        try:
            yield setup
        finally:
            setup.end_servers()


@contextmanager
def docker_setup(directory: Path) -> Iterator[DockerSetup]:
    engine = PrivateDockerd()
    archives = directory / "archives"
    archives.mkdir()
    try:
        engine.start()
        ensure_images(DockerApi(engine.address), [_TINY, "job"])
        yield DockerSetup(engine, archives)
    finally:
        engine.close()
