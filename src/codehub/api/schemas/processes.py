"""Detached processes of a workspace: ``/workspaces/{id}/processes``. What lists them is checked like any input."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field

from codehub.api.schemas.base import RequestBody, ResponseBody

MAX_PROCESSES = 100
"""``inside`` keeps 64, and as many more as run."""

ProcessId = Annotated[str, Path(pattern="^[0-9a-f]{12}$", examples=["5f0c2a9d1b7e"])]


class Process(ResponseBody):
    """A detached process, which runs while ``ended_at`` is null. Killed ones: 128 and the signal's number."""

    id: str = Field(pattern="^[0-9a-f]{12}$", examples=["5f0c2a9d1b7e"])
    command: str = Field(max_length=1000, description="Shortened", examples=["make train"])
    pid: int = Field(ge=1, description="In the workspace", examples=[4711])
    started_at: datetime = Field(examples=["2025-01-01T12:00:00Z"])
    ended_at: datetime | None = Field(examples=[None])
    exit_code: int | None = Field(ge=0, le=255, examples=[None])
    timed_out: bool = Field(examples=[False])
    output_bytes: int = Field(ge=0, description="Of both outputs, all of it", examples=[1204])
    lost_bytes: int = Field(ge=0, description="Its beginning, which is not kept", examples=[0])


class Processes(ResponseBody):
    """Detached processes in the order they were started, those that run and those that ended in the last day."""

    items: list[Process] = Field(max_length=MAX_PROCESSES)


class Kill(RequestBody):
    """The signal to send. TERM, INT, HUP and QUIT are followed by KILL after five seconds."""

    signal: Literal["TERM", "INT", "HUP", "QUIT", "KILL", "USR1", "USR2"] = Field(
        default="TERM", examples=["TERM"]
    )
