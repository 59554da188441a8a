"""Commands: bodies of ``/workspaces/{id}/exec`` and ``/workspaces/{id}/processes``."""

import base64
import re
from typing import Annotated

from pydantic import AfterValidator, Base64Bytes, Field

from codehub.api.schemas.base import RequestBody
from codehub.api.schemas.files import WorkspacePath

MAX_WORDS = 1024
MAX_VARIABLES = 256
MAX_INPUT_BYTES = 512 * 1024
MAX_TIMEOUT_SECONDS = 3600
MAX_DETACHED_SECONDS = 30 * 24 * 3600
MAX_SIZE = 1000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("no NUL")
    text.encode()  # a lone surrogate is no text
    return text


def _names(variables: dict[str, str]) -> dict[str, str]:
    for name in variables:
        if not _NAME.fullmatch(name):
            raise ValueError(f"not the name of a variable: {name[:64]!r}")
    return variables


Word = Annotated[str, AfterValidator(_without_nul), Field(max_length=128 * 1024)]


class _Surroundings(RequestBody):
    """What to run, and in what."""

    argv: Annotated[list[Word], Field(min_length=1, max_length=MAX_WORDS, examples=[["make", "test"]])]
    env: Annotated[
        dict[str, Word],
        AfterValidator(_names),
        Field(max_length=MAX_VARIABLES, description="Added to the workspace's own", examples=[{"CI": "1"}]),
    ] = Field(default_factory=dict)
    cwd: WorkspacePath | None = Field(default=None, description="Default: the home", examples=["project"])
    stdin: Base64Bytes = Field(
        default=b"", max_length=MAX_INPUT_BYTES, description="Base64", examples=["aGVsbG8K"]
    )

    def request(self) -> dict[str, object]:
        """What ``inside`` is told."""
        return {
            "argv": self.argv,
            "env": [f"{name}={value}" for name, value in self.env.items()],
            "cwd": self.cwd or "",
            "stdin": base64.b64encode(self.stdin).decode(),
        }


class Command(_Surroundings):
    """A command to run. No shell is involved: ``argv`` is what the program gets."""

    timeout_seconds: float = Field(
        default=300, gt=0, le=MAX_TIMEOUT_SECONDS, description="After it all it started is killed"
    )


class Size(RequestBody):
    """Size of a terminal in characters."""

    columns: int = Field(default=80, ge=1, le=MAX_SIZE)
    rows: int = Field(default=24, ge=1, le=MAX_SIZE)


class InteractiveCommand(Command):
    """The first message of the WebSocket ``/workspaces/{id}/exec``. ``tty``: run it on a terminal."""

    tty: Size | None = None

    def request(self) -> dict[str, object]:
        return {**super().request(), "tty": None if self.tty is None else self.tty.model_dump()}


class DetachedCommand(_Surroundings):
    """A command that goes on by itself. No shell is involved: ``argv`` is what the program gets."""

    timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        le=MAX_DETACHED_SECONDS,
        description="After it all it started is killed. Default: until the workspace stops",
        examples=[86400],
    )

    def request(self) -> dict[str, object]:
        return {**super().request(), "timeout_seconds": self.timeout_seconds or 0}
