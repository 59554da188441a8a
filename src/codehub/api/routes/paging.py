"""Parameters of lists. Cursors are what the previous page said; anything else is refused."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

MOST = 200

Limit = Annotated[int, Query(ge=1, le=MOST, description="Items of a page")]
IdCursor = Annotated[UUID | None, Query(description="next_cursor of the page before")]
NumberCursor = Annotated[int | None, Query(ge=1, le=2**63 - 1, description="next_cursor of the page before")]
