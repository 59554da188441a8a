"""Store the sign-in: a file with the server's URL and a token.

Readable by its owner only, and never with a password. ``CODEHUB_URL`` and ``CODEHUB_TOKEN`` take precedence,
for scripts and for containers without a home.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from codehub.cli.failures import CommandError, ExitCode

FILE_NAME = "login.json"


@dataclass(frozen=True)
class SavedLogin:
    """A server and the token to use there."""

    url: str
    token: str
    username: str | None = None  # None: known by CODEHUB_TOKEN alone
    token_id: str | None = None


def file_path() -> Path:
    """Return the path of the login file, in the user's configuration directory."""
    import platformdirs

    return Path(platformdirs.user_config_dir("codehub", appauthor=False)) / FILE_NAME


def find_stored() -> SavedLogin | None:
    """Read the login file.

    None: there is none. Raises ``CommandError`` if it is unreadable.
    """
    path = file_path()
    try:
        content = json.loads(path.read_text("utf-8"))
        url, token = content["url"], content["token"]
        if not (isinstance(url, str) and isinstance(token, str)):
            raise ValueError("no url or no token")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f"{path} is not what `codehub login` wrote. Delete it and sign in again.", ExitCode.NOT_SIGNED_IN
        ) from error
    return SavedLogin(url, token, content.get("username"), content.get("token_id"))


def get_login(environ: Mapping[str, str] = os.environ) -> SavedLogin:
    """Return server and token: from the environment, else from the file.

    Raises if not signed in.
    """
    url, token = environ.get("CODEHUB_URL"), environ.get("CODEHUB_TOKEN")
    if url and token:
        return SavedLogin(normal_url(url), token)
    stored = find_stored()
    if token:
        if stored is None:
            raise CommandError("CODEHUB_TOKEN is set, CODEHUB_URL is not: set it too.", ExitCode.USAGE)
        return SavedLogin(stored.url, token)
    if stored is None or (url and normal_url(url) != stored.url):
        # A token is sent only to the server that issued it.
        where = f" at {normal_url(url)}" if url else ""
        raise CommandError(
            f"You are not signed in{where}. Run `codehub login {normal_url(url) if url else 'URL'}` first.",
            ExitCode.NOT_SIGNED_IN,
        )
    return stored


def store(login: SavedLogin) -> Path:
    """Write the login file.

    Atomic: a crash leaves the old file, and readers never see a part.
    """
    path = file_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=path.parent)  # mode 600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(asdict(login), file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
    return path


def forget() -> None:
    """Remove the login file. Idempotent."""
    path = file_path()
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"{path} cannot be removed: {error.strerror}.") from error


def normal_url(given: str) -> str:
    """Normalise a server URL.

    Accepts ``host:port`` and pasted dashboard URLs. Raises ``CommandError``.
    """
    given = given.strip()
    if "://" not in given:
        given = f"{'http' if is_loopback(urlsplit('//' + given).hostname) else 'https'}://{given}"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError as error:
        raise CommandError(f"{given} is not an address: {error}.", ExitCode.USAGE) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise CommandError(
            f"{given} is not an address. It looks like https://codehub.example.org.", ExitCode.USAGE
        )
    if parts.username or parts.password:
        raise CommandError("An address holds no name and no password; give --username.", ExitCode.USAGE)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "") + parts.path.rstrip("/")


def is_loopback(host: str | None) -> bool:
    """Whether a host name or address is this machine's loopback."""
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
