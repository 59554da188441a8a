"""Read process records, which each process writes before it execs the IDE or job.

A record is one short line of JSON, written with a single ``write`` by the shim in ``spawn``. An empty file is a
process that has not written yet: either it will, and the next observation finds it, or it never ran. So an empty
record is no process. Any other content that is not a record is unknown: ``UnreadableRecord``.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from codehub.runtimes.base import Address, Endpoint, FencingToken, UnixSocket
from codehub.runtimes.local.ports import HOST
from codehub.runtimes.local.processes import ProcessIdentity, read_line


class UnreadableRecord(Exception):
    """The file has content that is not a record."""


@dataclass(frozen=True)
class ProcessRecord:
    identity: ProcessIdentity
    token: FencingToken
    port: int = 0  # of a workspace; a storage job has none
    socket: str | None = None  # of a workspace that does not listen on its port

    @property
    def endpoint(self) -> Endpoint:
        """Where the IDE of a workspace listens."""
        return UnixSocket(self.socket) if self.socket else Address(HOST, self.port)


def find_record(path: Path) -> ProcessRecord | None:
    try:
        raw = read_line(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableRecord(str(error)) from error
    if not raw.strip():
        return None
    try:
        value = json.loads(raw)
        return ProcessRecord(
            identity=ProcessIdentity(int(value["pid"]), int(value["start_ticks"]), str(value["boot_id"])),
            token=FencingToken(int(value["op_seq"]), int(value["epoch"])),
            port=int(value["port"]),
            socket=value.get("socket"),  # absent if it listens on a port
        )
    except (ValueError, KeyError, TypeError) as error:
        if _is_from_an_earlier_boot(path):
            return None  # torn by a power cut: its process ended with that boot
        raise UnreadableRecord(f"{path.name} is not a record") from error


def record_head(*, token: FencingToken, port: int, boot: str, socket: Path | None = None) -> str:
    """The first part of a record; the shim adds pid and start tick."""
    fields: dict[str, str | int] = {
        "boot_id": boot,
        "op_seq": token.op_seq,
        "epoch": token.epoch,
        "port": port,
    }
    if socket is not None:
        fields["socket"] = str(socket)
    return json.dumps(fields)[1:]


def _is_from_an_earlier_boot(path: Path) -> bool:
    booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        return os.stat(path).st_mtime < booted_at - 1
    except OSError:
        return False
