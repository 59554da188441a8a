"""Body of every refusal: ``application/problem+json``."""

from uuid import UUID

from pydantic import Field

from codehub.api.schemas.base import ResponseBody
from codehub.domain.status import Status


class FieldError(ResponseBody):
    field: str
    message: str = Field(description="In English")
    code: str = Field(description="For programs and other languages; `not_valid`: see `message`")
    params: dict[str, int | float | str] = Field(
        description="What the code is about, for example `max_length`"
    )


class RunningWorkspace(ResponseBody):
    id: UUID
    name: str
    status: Status


class Problem(ResponseBody):
    """Problem details (RFC 9457): ``code`` for programs, ``detail`` for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] | None = Field(None, description="With 422: what is wrong with which field")
    used: int | None = Field(None, description="With a limit: places taken")
    allowed: int | None = Field(None, description="With a limit: places allowed")
    running: list[RunningWorkspace] | None = Field(
        None, description="With a limit: your workspaces that hold places"
    )
