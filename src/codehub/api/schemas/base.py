"""Shared parts of request and response bodies, as shown in the OpenAPI document.

Request bodies are validated by their models, and unknown fields are refused.
"""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


class RequestBody(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ResponseBody(BaseModel):
    model_config = ConfigDict(frozen=True)


class Page(ResponseBody, Generic[T]):
    """A page of a list. Pass ``next_cursor`` as ``?cursor=``; null: the last page."""

    items: list[T]
    next_cursor: str | None = Field(examples=[None])
