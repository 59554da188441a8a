"""Commands ``codehub keys …``: one's own public keys, for a plain ssh through the SSH gateway."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import JSON, connect
from codehub.cli.output import err, escape, out, print_json, print_table
from codehub.cli.words import ago, clean

if TYPE_CHECKING:
    from codehub.cli.answers import SshGateway, SshKey

MAX_FILE = 64 * 1024
MAX_NAME = 64

app = typer.Typer(no_args_is_help=True, help="Your public keys, for ssh without this command.")


@app.command(name="list")
def list_keys(json: bool = JSON) -> None:
    """Show your keys, and how to use them."""
    with connect() as client:
        keys, gateway = client.ssh_keys()
        username = client.current_user()["username"]
        now = client.now
    if json:
        print_json(keys)
        return
    if keys:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("name", "fingerprint", "added", "last used"):
            table.add_column(title)
        for key in keys:
            used = ago(key["last_used_at"], now=now) if key["last_used_at"] else "never"
            table.add_row(
                escape(clean(key["name"])), clean(key["fingerprint"]), ago(key["added_at"], now=now), used
            )
        print_table(table)
    else:
        err.print("You have no keys. Add one: codehub keys add ~/.ssh/id_ed25519.pub", markup=False)
    err.print(_usage(gateway, username), markup=False)


@app.command()
def add(
    file: str = typer.Argument(help="The public key, which ends in .pub; - for standard input."),
    name: str = typer.Option("", "--name", help="What it is called. Default: the key's comment."),
    json: bool = JSON,
) -> None:
    """Add a public key. A key belongs to one person."""
    text = _read(file)
    words = text.split(None, 2)
    comment = words[2].strip() if len(words) > 2 else ""
    chosen = name or comment or (Path(file).stem if file != "-" else "key")
    with connect() as client:
        key = client.add_ssh_key(chosen[:MAX_NAME], text)
    if json:
        print_json(key)
        return
    out.print(f"Added {clean(key['name'])}, {clean(key['fingerprint'])}.", markup=False)


@app.command()
def rm(
    key: str = typer.Argument(help="Its name, fingerprint or id."),
    json: bool = JSON,
) -> None:
    """Remove a key. Connections that were opened with it end."""
    with connect() as client:
        keys, _ = client.ssh_keys()
        found = _choose(key, keys)
        client.remove_ssh_key(found["id"])
    if json:
        print_json({"id": found["id"]})
        return
    out.print(f"Removed {clean(found['name'])}, {clean(found['fingerprint'])}.", markup=False)


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read(MAX_FILE) if file == "-" else _read_file(Path(file).expanduser())
        return data.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise CommandError(f"{file} cannot be read: {reason}.", ExitCode.USAGE) from error


def _read_file(path: Path) -> bytes:
    with path.open("rb") as opened:
        data = opened.read(MAX_FILE)
    if b"PRIVATE KEY" in data:  # it must not even be sent
        raise CommandError(
            f"{path} is a private key, which nobody but you may have. Give {path}.pub.", ExitCode.USAGE
        )
    return data


def _choose(reference: str, keys: "list[SshKey]") -> "SshKey":
    found = [key for key in keys if reference in (key["id"], key["fingerprint"])]
    found = found or [key for key in keys if key["name"] == reference]
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandError(
            f"{len(found)} keys are named {clean(reference)}. Say which by its fingerprint.",
            ExitCode.CONFLICT,
        )
    raise CommandError(
        f"You have no key {clean(reference)}. `codehub keys list` shows what there is.", ExitCode.NOT_FOUND
    )


def _usage(gateway: "SshGateway | None", username: str) -> str:
    if gateway is None:
        return (
            "This CodeHub has no SSH gateway, so keys are of no use yet: codehub ssh NAME works without one."
        )
    return (
        f"To connect: ssh -J {clean(username)}@{clean(gateway['host'])}:{gateway['port']} NAME\n"
        f"The gateway's key: {clean(gateway['fingerprint'])}"
    )
