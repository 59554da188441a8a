"""Bodies of ``/workspaces/{id}/files`` and what ``inside`` answers, which is checked like any input."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, IPvAnyAddress

from codehub.api.schemas.base import RequestBody, ResponseBody
from codehub.api.schemas.processes import MAX_PROCESSES, Process

MAX_ENTRIES = 10_000
MAX_PATH_BYTES = 4096
MAX_LISTENERS = 500


def _is_path(path: str) -> str:
    if "\0" in path or len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        raise ValueError("a path has no NUL and at most 4096 bytes")
    return path


WorkspacePath = Annotated[
    str,
    AfterValidator(_is_path),
    Field(description="Absolute, or from the home", examples=["notes/today.md"], max_length=MAX_PATH_BYTES),
]


class FileEntry(ResponseBody):
    """A file, directory or link."""

    name: str = Field(max_length=1024, examples=["today.md"])
    type: Literal["file", "directory", "symlink", "other"] = Field(examples=["file"])
    size: int = Field(ge=0, examples=[1204])
    mode: str = Field(pattern="^[0-7]{4}$", examples=["0644"])
    modified_at: datetime = Field(examples=["2025-01-01T12:00:00Z"])
    target: str | None = Field(
        default=None, max_length=MAX_PATH_BYTES, description="Of a link", examples=[None]
    )


class DirectoryListing(ResponseBody):
    """A directory's entries, by name. ``truncated``: there are more than are listed."""

    entries: list[FileEntry] = Field(max_length=MAX_ENTRIES)
    truncated: bool = Field(examples=[False])


class NewDirectory(RequestBody):
    path: WorkspacePath
    parents: bool = Field(default=False, description="Make those above it too; one that exists is no error")


class Move(RequestBody):
    path: WorkspacePath
    target: WorkspacePath
    overwrite: bool = Field(default=False, description="Replace what is there")


class PutBack(RequestBody):
    """A file of an archive to write into the home."""

    path: WorkspacePath
    target: WorkspacePath | None = Field(
        default=None, description="Where to, if elsewhere", examples=["notes/today.old.md"]
    )
    overwrite: bool = Field(default=False, description="Replace what is there")


class InsideListener(BaseModel):
    """A listening socket. No ``process``: the workspace's user may not see it."""

    model_config = ConfigDict(frozen=True)

    address: IPvAnyAddress
    port: int = Field(ge=1, le=65535)
    process: str | None = Field(default=None, max_length=256)


class InsideAnswer(BaseModel):
    """The answer of ``inside``. ``length``: bytes that follow; -1: until its end."""

    model_config = ConfigDict(frozen=True)

    entry: FileEntry | None = None
    entries: list[FileEntry] = Field(default=[], max_length=MAX_ENTRIES)
    truncated: bool = False
    length: int = Field(default=0, ge=-1)
    listeners: list[InsideListener] = Field(default=[], max_length=MAX_LISTENERS)
    home: str | None = Field(default=None, max_length=MAX_PATH_BYTES)
    processes: list[Process] = Field(default=[], max_length=MAX_PROCESSES)
    error: str | None = None
    message: str = ""
