"""Query parameters of lists: ``limit``, and ``cursor`` from the previous page."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

MAX_PAGE_SIZE = 200

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE, description="Items of a page")]
IdCursor = Annotated[UUID | None, Query(description="next_cursor of the page before")]
NumberCursor = Annotated[int | None, Query(ge=1, le=2**63 - 1, description="next_cursor of the page before")]
