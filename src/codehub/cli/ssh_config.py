"""Write CodeHub's marked lines into OpenSSH's configuration, and take them out again."""

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from codehub.cli.failures import CommandError

BEGIN = "# BEGIN codehub: written by `codehub config-ssh`, taken out by `codehub config-ssh --remove`"
END = "# END codehub"
CIPHERS = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com"
"""All that ``inside`` offers. OpenSSH would take the last one first, which costs a workspace several times as much."""

_BLOCK = re.compile(rf"\n?^{re.escape('# BEGIN codehub')}.*?^{re.escape(END)}\n?", re.MULTILINE | re.DOTALL)


def options(proxy_command: str, known_hosts: Path) -> list[tuple[str, str]]:
    """OpenSSH's options for every workspace.

    The only keys that count are those CodeHub gave; a changed one is an error, not a question.
    """
    return [
        ("ProxyCommand", proxy_command),
        ("UserKnownHostsFile", f'"{known_hosts}"'),
        ("GlobalKnownHostsFile", "/dev/null"),
        ("StrictHostKeyChecking", "yes"),
        ("CheckHostIP", "no"),
        ("UpdateHostKeys", "no"),
        ("Ciphers", CIPHERS),
    ]


def block(suffix: str, proxy_command: str, known_hosts: Path) -> str:
    lines = [f"  {name} {value}" for name, value in options(proxy_command, known_hosts)]
    return "\n".join([BEGIN, f"Host *{suffix}", *lines, END]) + "\n"


def replace_block(text: str, block: str) -> str:
    """Put the block at the end, in place of one from before; empty: none.

    At the end, because what stands before the first ``Host`` of a file is for all hosts, and must stay so.
    """
    rest = _BLOCK.sub("", text)
    if not block:
        return rest
    separator = "" if not rest else "\n" if rest.endswith("\n") else "\n\n"
    return rest + separator + block


def read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}.") from error


def write(path: str, text: str) -> None:
    """Replace the file at once, readable as before; a new one for its owner only."""
    directory = os.path.dirname(path)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
        handle, unfinished = tempfile.mkstemp(prefix=".config.", dir=directory)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(file.fileno(), mode)
            os.replace(unfinished, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
