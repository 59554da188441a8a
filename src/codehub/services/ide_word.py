"""Ask an IDE for its own word: one GET, one small JSON answer.

An answer of any kind is a word, and so is a refused connection: nobody is there to be asked. Silence is none: it
raises ``TimeoutError`` or ``OSError``, and nothing follows from it. The workspace chooses what it answers; nothing but
whether it counts as busy depends on it.
"""

import asyncio
import json
from typing import Any

from codehub.domain.busy import BusySign, BusyWith
from codehub.kit.unix_sockets import connect_without_links
from codehub.runtimes.base import Endpoint, UnixSocket

ANSWER_SECONDS = 5.0
LONGEST_ANSWER = 256 * 1024
LONGEST_NAME = 60
KERNELS_PATH = "api/kernels?no_track_activity=1"
"""Jupyter's list of kernels. Asking is no activity in its own bookkeeping, either."""


async def ask(endpoint: Endpoint, path: str) -> Any:
    """GET ``path`` from the IDE and return its JSON; None: it has no such word."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            body = await _get(endpoint, path)
    except (ConnectionRefusedError, FileNotFoundError):
        return None
    try:
        return json.loads(body) if body is not None else None
    except (ValueError, RecursionError):
        return None


def busy_kernels(answer: Any) -> BusySign | None:
    """Read Jupyter's list of kernels."""
    kernels = answer if isinstance(answer, list) else []
    executing = [each for each in kernels if isinstance(each, dict) and each.get("execution_state") == "busy"]
    return BusySign(BusyWith.KERNEL) if executing else None


def busy_by_own_word(answer: Any) -> BusySign | None:
    """Read an image's own answer: ``{"busy": true, "what": "training"}``."""
    if not isinstance(answer, dict) or answer.get("busy") is not True:
        return None
    what = answer.get("what")
    return BusySign(BusyWith.IDE, printable(what) if isinstance(what, str) else "")


def printable(name: str) -> str:
    """Cut a name that a workspace chose to what can be shown in one line."""
    return "".join(each for each in name if each.isprintable())[:LONGEST_NAME]


async def _get(endpoint: Endpoint, path: str) -> bytes | None:
    if isinstance(endpoint, UnixSocket):
        connecting = asyncio.open_unix_connection(
            sock=connect_without_links(endpoint.path), limit=LONGEST_ANSWER
        )
    else:
        connecting = asyncio.open_connection(endpoint.host, endpoint.port, limit=LONGEST_ANSWER)
    reader, writer = await connecting
    try:
        # HTTP/1.0: the answer comes in one piece.
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode())
        return await _read_answer(reader)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise OSError("the IDE answered in part") from error
    finally:
        writer.close()


async def _read_answer(reader: asyncio.StreamReader) -> bytes | None:
    """The body of a JSON document; None: it is another answer."""
    status, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    code = [*status.split(" "), ""][1]
    if code.startswith("5"):
        raise OSError("the IDE failed to answer")
    head = {
        name.strip().lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)
    }
    if code != "200" or "json" not in head.get("content-type", ""):
        return None
    length = head.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) <= LONGEST_ANSWER:
        return await reader.readexactly(int(length))
    said = bytearray()
    while piece := await reader.read(LONGEST_ANSWER):
        said += piece
        if len(said) > LONGEST_ANSWER:
            raise OSError("the answer of the IDE is too long")
    return bytes(said)
