"""Docker's API for tests: synchronous, around the runtime's back, over the engine's socket."""

import http.client
import io
import json
import socket
import tarfile
import time
from typing import Any
from urllib.parse import urlencode


class DockerApi:
    """One engine. Every call opens a connection of its own."""

    def __init__(self, address: str) -> None:
        assert address.startswith("unix://"), "tests speak to an engine on this machine"
        self.address = address

    @property
    def socket_path(self) -> str:
        return self.address.removeprefix("unix://")

    def call(
        self, method: str, route: str, *, body: Any = None, expect: tuple[int, ...] = (), **params: Any
    ) -> Any:
        """The decoded answer. Status codes in ``expect`` are as good as success."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = "application/x-tar" if isinstance(body, bytes) else "application/json"
        query = urlencode({key: value for key, value in params.items() if value is not None}, doseq=True)
        connection = _Connection(self.socket_path)
        try:
            connection.request(method, f"{route}?{query}", body=raw, headers={"Content-Type": kind})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST and answer.status not in expect:
            raise AssertionError(f"{method} {route}: {answer.status} {data.decode(errors='replace')}")
        is_json = (answer.getheader("Content-Type") or "").startswith("application/json")
        return json.loads(data) if is_json and data and b"\n{" not in data else data

    def listed(self, kind: str, *labels: str) -> list[dict[str, Any]]:
        """``containers``, ``volumes`` or ``networks`` that carry all these labels."""
        filters = json.dumps({"label": list(labels)})
        if kind == "containers":
            found = self.call("GET", "/containers/json", all="1", filters=filters)
        elif kind == "volumes":
            found = self.call("GET", "/volumes", filters=filters)["Volumes"]
        else:
            found = self.call("GET", f"/{kind}", filters=filters)
        return list(found or ())

    def container(self, name: str) -> dict[str, Any] | None:
        found = self.call("GET", f"/containers/{name}/json", expect=(404,))
        return found if "Id" in found else None

    def kill(self, name: str) -> None:
        self.call("POST", f"/containers/{name}/kill")
        self.call("POST", f"/containers/{name}/wait", condition="not-running")

    def remove_container(self, name: str) -> None:
        self.call("DELETE", f"/containers/{name}", force="1", v="1", expect=(404, 409))

    def remove_everything(self, *labels: str) -> None:
        """Containers, volumes and networks that carry these labels."""
        for each in self.listed("containers", *labels):
            self.remove_container(each["Id"])
        for each in self.listed("volumes", *labels):
            self.call("DELETE", f"/volumes/{each['Name']}", expect=(404,))
        for each in self.listed("networks", *labels):
            self._remove_network(each["Id"])

    def _remove_network(self, network: str) -> None:
        """The engine lets go of endpoints after their containers are gone (403 until then).

        A moment for one container; many seconds for fifty on a busy machine.
        """
        for _ in range(600):
            answer = self.call("DELETE", f"/networks/{network}", expect=(403, 404))
            if not (isinstance(answer, dict) and "active endpoints" in answer.get("message", "")):
                return
            time.sleep(0.1)
        self.call("DELETE", f"/networks/{network}", expect=(404,))

    # Files in volumes, through a container that is never started: works wherever the engine keeps them

    def write_file(self, volume: str, name: str, content: bytes, *, image: str) -> None:
        with _Door(self, volume, image) as container:
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            self.call("PUT", f"/containers/{container}/archive", body=buffer.getvalue(), path="/door")

    def read_file(self, volume: str, name: str, *, image: str) -> bytes | None:
        with _Door(self, volume, image) as container:
            data = self.call("GET", f"/containers/{container}/archive", path=f"/door/{name}", expect=(404,))
        if not isinstance(data, bytes):
            return None
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            member = tar.extractfile(tar.getmembers()[0])
            assert member is not None
            return member.read()

    # Images

    def has_image(self, reference: str) -> bool:
        return "Id" in self.call("GET", f"/images/{reference}/json", expect=(404,))

    def import_image(self, reference: str, tar: bytes, *, changes: list[str]) -> None:
        """An image of one layer, from nothing but a tar: no registry is asked."""
        repository, _, tag = reference.rpartition(":")
        said = self.call(
            "POST", "/images/create", body=tar, fromSrc="-", repo=repository, tag=tag, changes=changes
        )
        assert self.has_image(reference), said


class _Door:
    """A created container with the volume at /door."""

    def __init__(self, api: DockerApi, volume: str, image: str) -> None:
        self._api = api
        self._config = {
            "Image": image,
            "HostConfig": {"Mounts": [{"Type": "volume", "Source": volume, "Target": "/door"}]},
        }
        self._id = ""

    def __enter__(self) -> str:
        self._id = self._api.call("POST", "/containers/create", body=self._config)["Id"]
        return self._id

    def __exit__(self, *_: object) -> None:
        self._api.remove_container(self._id)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(self._path)
