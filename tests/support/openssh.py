"""OpenSSH's own programs, connected to ``inside ssh`` without a server: a pipe is all it needs."""

import asyncio
import json
import os
import shlex
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

SEED = bytes(range(32))
HOST = "thesis"


@dataclass(frozen=True)
class OpenSsh:
    """A client's configuration in a directory of its own, and the home of a workspace."""

    directory: Path
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.directory / "config"

    def command(self, program: str, *arguments: str) -> list[str]:
        return [program, "-F", str(self.config), *arguments]

    def run(
        self,
        *command: str,
        program: str = "ssh",
        options: Sequence[str] = (),
        stdin: bytes | None = b"",
        timeout: float = 90,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the workspace, and wait for its end."""
        return subprocess.run(
            self.command(program, *options, HOST, *command),
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            env=self.environment or None,
        )

    @asynccontextmanager
    async def running(
        self, *arguments: str, program: str = "ssh"
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """A client that runs until the end of the block."""
        process = await asyncio.create_subprocess_exec(
            *self.command(program, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment or None,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


def configure(directory: Path, inside: Sequence[str], **opening: bool) -> OpenSsh:
    """Write a configuration whose ProxyCommand is ``inside ssh`` itself."""
    home = directory / "home"
    home.mkdir()
    first_line = json.dumps({"host_key": b64encode(SEED).decode(), **opening})
    proxy = directory / "proxy"
    proxy.write_text(
        "#!/bin/sh\n"
        "unset SSH_AUTH_SOCK\n"
        f"export HOME={shlex.quote(str(home))}\n"
        f"{{ echo {shlex.quote(first_line)}; exec cat; }} | {shlex.join([*inside, 'ssh'])}\n"
    )
    proxy.chmod(0o755)
    key = subprocess.run(
        [*inside, "key"], input=first_line.encode() + b"\n", capture_output=True, check=True
    ).stdout.decode()
    (directory / "known_hosts").write_text(f"{HOST} {key}")
    (directory / "config").write_text(
        f"Host {HOST}\n"
        f"  ProxyCommand {shlex.quote(str(proxy))}\n"
        f"  UserKnownHostsFile {directory}/known_hosts\n"
        "  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n"
        "  IdentityFile none\n"
        "  LogLevel ERROR\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SSH_")}
    return OpenSsh(directory, home, environment)
