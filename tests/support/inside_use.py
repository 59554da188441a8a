"""Every way into workspaces, whatever runtime and image they have: commands, files, SSH."""

import asyncio
import base64
import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.docker_images import HOME, PORT
from tests.support.people import Person
from tests.support.ssh_shell import SshShell, use_everything, use_without_shell
from tests.support.waiting import until


async def use_from_within(person: Person, *, thesis: str, bare: str, directory: Path) -> None:
    """Use two workspaces that run, and wake one by SSH. ``bare``: of an image without a shell."""
    await use_commands_and_files(person, thesis, cat=["sh", "-c", "cat"])
    await use_commands_and_files(person, bare, cat=["/busybox-server", "cat"])
    shell = SshShell(directory / "shell")
    shell.directory.mkdir()
    await shell.sign_in(str(person.client.base_url))
    await use_everything(shell, "thesis", port=PORT, home=HOME)
    await use_without_shell(shell, "bare", port=PORT)

    await use_loopback_port(person, thesis)
    await person.intent(thesis, "stop")
    await person.until_status(thesis, "standby")
    woken = await shell.codehub_ssh("thesis", "cat received | wc -c")
    assert (woken.code, woken.output.strip()) == (0, str(256 * 4096)), woken


async def use_loopback_port(person: Person, workspace_id: str) -> None:
    """Open a port of the workspace's own loopback in the browser: listed as a link, byte for byte, many at once."""
    base, port = f"/api/v1/workspaces/{workspace_id}", 7070
    content = os.urandom(3_000_000)
    written = await person.client.put(
        f"{base}/files/content", params={"path": "served"}, content=content, timeout=60
    )
    assert written.status_code == 200, written.text
    body = {"argv": ["httpd", "-f", "-p", f"127.0.0.1:{port}", "-h", HOME], "timeout_seconds": 120}
    async with person.client.stream("POST", f"{base}/exec", json=body, timeout=120) as serving:
        assert serving.status_code == 200

        async def listed() -> dict[str, Any] | None:
            found = (await person.api("GET", f"/workspaces/{workspace_id}/ports"))["ports"]
            return next((each for each in found if each["port"] == port), None)

        await until(listed)
        entry = await listed()
        assert entry is not None
        assert entry["addresses"] == ["127.0.0.1"]
        address = urlsplit(entry["url"]).path + "served"

        async def fetch() -> bytes:
            answer = await person.client.get(address, timeout=60)
            assert answer.status_code == 200, answer.text
            return answer.content

        assert await asyncio.gather(*(fetch() for _ in range(5))) == [content] * 5
        closed = await person.client.get(f"/w/{workspace_id}/port/7071/", timeout=60)
        assert closed.status_code == 502, closed.text


async def use_commands_and_files(person: Person, workspace_id: str, *, cat: Sequence[str]) -> None:
    """Run ``cat`` with input, write a file, read it in whole, in part and in a tar, and delete it.

    The API's own answers are asserted by other tests; here it is the way through the runtime.
    """
    base = f"/api/v1/workspaces/{workspace_id}"
    said = base64.b64encode(b"hello\n").decode()
    answer = await person.client.post(f"{base}/exec", json={"argv": list(cat), "stdin": said}, timeout=60)
    assert answer.status_code == 200, answer.text
    data = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert b"".join(base64.b64decode(each["data"]) for each in data if "data" in each) == b"hello\n"
    assert data[-1] == {"code": 0, "timed_out": False, "message": ""}

    content, path = os.urandom(2_000_000), {"path": "notes/file"}
    written = await person.client.put(
        f"{base}/files/content", params={**path, "parents": "true"}, content=content, timeout=60
    )
    assert written.status_code == 200, written.text
    read = await person.client.get(f"{base}/files/content", params=path, timeout=60)
    assert read.content == content
    part = await person.client.get(f"{base}/files/content", params=path, headers={"Range": "bytes=5-9"})
    assert part.content == content[5:10]
    packed = await person.client.get(f"{base}/files/archive", params={"path": "notes"}, timeout=60)
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as tar:
        assert tar.getnames() == ["notes", "notes/file"]
    deleted = await person.client.delete(f"{base}/files", params={"path": "notes", "recursive": "true"})
    assert deleted.status_code == 204, deleted.text
    assert (await person.client.get(f"{base}/files/stat", params=path)).status_code == 404
