"""Passwords of the embedded servers, stored in ``secrets/`` of the data directory.

Made at the first start. The servers listen on sockets in a directory only our user may enter. One wrong file mode
there would give others the database's superuser, so both servers ask for a password as well. The files are 0600 in
a directory of 0700; passwords are on no command line and in no log.
"""

import base64
import hashlib
import hmac
import os
import secrets

from codehub.server.data_dir import DataDir

POSTGRES, REDIS = "postgres-password", "redis-password"


def make() -> str:
    return secrets.token_urlsafe(32)


def find(data_dir: DataDir, name: str) -> str | None:
    """The stored password; None: there is none, or it is not readable for us."""
    try:
        return (data_dir.secrets / name).read_text("ascii").strip() or None
    except FileNotFoundError:
        return None


def keep(data_dir: DataDir, name: str, password: str) -> None:
    """Store a password. Atomic: a crash leaves none, or all of it."""
    data_dir.secrets.mkdir(mode=0o700, exist_ok=True)
    aside = data_dir.secrets / f".{name}.{os.getpid()}"
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(password + "\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(data_dir.secrets / name)


def scram_verifier(password: str) -> str:
    """The SCRAM verifier PostgreSQL stores instead of the password (RFC 5802).

    One iteration: more of them slow down guessing, and 256 random bits cannot be guessed. They would slow down
    every connection of ours by as much.
    """
    salt, iterations = secrets.token_bytes(16), 1
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    encoded = [base64.b64encode(part).decode() for part in (salt, stored, server)]
    return f"SCRAM-SHA-256${iterations}:{encoded[0]}${encoded[1]}:{encoded[2]}"
