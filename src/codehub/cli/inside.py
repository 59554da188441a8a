"""Commands ``codehub exec`` and ``codehub cp``: run a command in a workspace, copy files into it and out of it."""

import base64
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, cast

import typer

from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import WORKSPACE, connect
from codehub.cli.output import complain, out
from codehub.cli.references import get_workspace
from codehub.cli.waking import while_it_wakes

if TYPE_CHECKING:
    from codehub.cli.client import Client
    from codehub.cli.sse import Event

WAKE = typer.Option(False, "--wake", help="Start it if it sleeps.")
DEFAULT_SECONDS = 300.0
SPOOLED_BYTES = 16 * 1024 * 1024
_WORDS_OF_A_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(name="exec", context_settings=_WORDS_OF_A_COMMAND)(exec_command)
    app.command(name="cp")(copy)


def exec_command(
    workspace: str = WORKSPACE,
    command: list[str] = typer.Argument(help="The program and its arguments; no shell is involved."),
    cwd: str = typer.Option(None, "--cwd", help="Directory, absolute or from the home. Default: the home."),
    env: list[str] = typer.Option([], "--env", "-e", help="NAME=VALUE, any number of times."),
    timeout: float = typer.Option(
        None,
        "--timeout",
        min=0.1,
        help="End it after these seconds. Default: 300, detached: with the workspace.",
        show_default=False,
    ),
    stdin: bool = typer.Option(False, "--stdin", "-i", help="Pass on standard input, 512 KiB at most."),
    detach: bool = typer.Option(
        False, "--detach", "-d", help="Start it and leave: it goes on there. Prints its id."
    ),
    wake: bool = WAKE,
) -> None:
    """Run a command in a workspace: its output, and its exit code."""
    if wrong := [each for each in env if "=" not in each]:
        raise CommandError(f"Not NAME=VALUE: {wrong[0]}", ExitCode.USAGE)
    body: dict[str, object] = {
        "argv": command[1:] if command[0] == "--" and len(command) > 1 else command,
        "env": dict(each.split("=", 1) for each in env),
        "cwd": cwd,
        "timeout_seconds": timeout or (None if detach else DEFAULT_SECONDS),
        "stdin": base64.b64encode(sys.stdin.buffer.read()).decode() if stdin else "",
    }
    with connect() as client:
        workspace_id = get_workspace(client, workspace)["id"]
        if detach:
            started = while_it_wakes(lambda: client.start_process(workspace_id, body, wake=wake), wake=wake)
            out.print(started["id"], markup=False)
            return
        code = while_it_wakes(lambda: _run(client, workspace_id, body, wake=wake), wake=wake)
    raise typer.Exit(code)


def _run(client: "Client", workspace_id: str, body: dict[str, object], *, wake: bool) -> int:
    with client.exec(workspace_id, body, wake=wake) as events:
        code = pass_on(events)
    assert code is not None
    return code


def pass_on(events: "Iterator[Event]") -> int | None:
    """Write a command's output here; its exit code, None: it goes on. Raises ``CommandError`` if it was cut."""
    outputs = {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer}
    for event in events:
        said = json.loads(event.data)
        if event.name in outputs:
            outputs[event.name].write(base64.b64decode(said["data"]))
            outputs[event.name].flush()
        elif event.name == "running":
            return None
        elif event.name == "exit":
            if said["message"]:
                complain(said["message"])
            return int(said["code"])
    raise CommandError(
        "The connection was cut before the end. A command that was not detached was ended with it."
    )


def copy(
    source: str = typer.Argument(help="A path here, or WORKSPACE:PATH."),
    target: str = typer.Argument(help="A path here, or WORKSPACE:PATH; WORKSPACE: is its home."),
    recursive: bool = typer.Option(False, "--recursive", "-r", help="A directory with all in it."),
    wake: bool = WAKE,
) -> None:
    """Copy a file or a directory into a workspace, or out of it. A file is there complete or not at all."""
    there, here = _remote(source), _remote(target)
    if (there is None) == (here is None):
        raise CommandError("One of the two is WORKSPACE:PATH, the other a path here.", ExitCode.USAGE)
    with connect() as client:
        if here is not None:
            name, path = here
            workspace_id = get_workspace(client, name)["id"]
            _copy_in(client, workspace_id, Path(source), path, recursive=recursive, wake=wake)
        elif there is not None:
            name, path = there
            workspace_id = get_workspace(client, name)["id"]
            _copy_out(client, workspace_id, path, Path(target), recursive=recursive, wake=wake)


def _remote(text: str) -> tuple[str, str] | None:
    """Workspace and path; None: a path here. As with scp, ``./a:b`` is one."""
    name, colon, path = text.partition(":")
    return (name, path) if colon and name and "/" not in name else None


def _copy_in(
    client: "Client", workspace_id: str, source: Path, path: str, *, recursive: bool, wake: bool
) -> None:
    if source.is_dir():
        if not recursive:
            raise CommandError(f"{source} is a directory: use -r.", ExitCode.USAGE)
        with tempfile.SpooledTemporaryFile(SPOOLED_BYTES) as spooled:
            with tarfile.open(fileobj=spooled, mode="w") as tar:
                tar.add(source, source.resolve().name)

            def send() -> None:
                spooled.seek(0)
                client.write_files(workspace_id, "archive", path, cast(BinaryIO, spooled), wake=wake)

            while_it_wakes(send, wake=wake)
        return
    if not path or path.endswith("/"):
        path += source.name
    try:
        file = source.open("rb")
    except OSError as error:
        raise CommandError(f"{source}: {error.strerror}") from error
    with file:

        def send_file() -> None:
            file.seek(0)
            client.write_files(workspace_id, "content", path, file, wake=wake)

        while_it_wakes(send_file, wake=wake)


def _copy_out(
    client: "Client", workspace_id: str, path: str, target: Path, *, recursive: bool, wake: bool
) -> None:
    if recursive:
        while_it_wakes(lambda: _unpack(client, workspace_id, path, target, wake=wake), wake=wake)
        return
    if target.is_dir():
        target = target / PurePosixPath(path).name
    while_it_wakes(lambda: _save(client, workspace_id, path, target, wake=wake), wake=wake)


def _save(client: "Client", workspace_id: str, path: str, target: Path, *, wake: bool) -> None:
    with (
        client.read_files(workspace_id, "content", path, wake=wake) as pieces,
        tempfile.NamedTemporaryFile(dir=target.parent, prefix=".codehub-", delete=False) as file,
    ):
        try:
            for piece in pieces:
                file.write(piece)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(file.name, 0o666 & ~mask)
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise


def _unpack(client: "Client", workspace_id: str, path: str, target: Path, *, wake: bool) -> None:
    with client.read_files(workspace_id, "archive", path, wake=wake) as pieces:
        target.mkdir(parents=True, exist_ok=True)
        try:
            with tarfile.open(fileobj=cast(BinaryIO, _Pieces(pieces)), mode="r|") as tar:
                tar.extractall(target, filter="data")  # the workspace's names lead nowhere else
        except tarfile.TarError as error:
            raise CommandError(f"What the workspace sent cannot be unpacked: {error}") from error


class _Pieces:
    """Read bytes from an iterator of pieces, as ``tarfile`` wants them."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, count: int) -> bytes:
        while len(self._rest) < count:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest += piece
        found, self._rest = self._rest[:count], self._rest[count:]
        return found
