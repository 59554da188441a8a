"""SQL written by hand, with the types of its columns declared beside it.

For what SQLAlchemy has no names for. A ``text()`` without types runs too, but gives no rows.
"""

from typing import TypeVar, TypeVarTuple, overload

from sqlalchemy import column, text
from sqlalchemy.sql.selectable import TextualSelect, TypedReturnsRows
from sqlalchemy.types import TypeEngine

from codehub.store.db.records import AnyType

T = TypeVar("T")
T0 = TypeVar("T0")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
Ts = TypeVarTuple("Ts")


class TextOfRows(TextualSelect, TypedReturnsRows[*Ts]):
    """Text that returns tuples."""

    inherit_cache = True


class TextOfScalar(TextualSelect, TypedReturnsRows[T]):
    """Text that returns one column."""

    inherit_cache = True


@overload
def typed_text(sql: str, only: TypeEngine[T0], /) -> TextOfScalar[T0]: ...


@overload
def typed_text(sql: str, first: TypeEngine[T0], second: TypeEngine[T1], /) -> TextOfRows[T0, T1]: ...


@overload
def typed_text(
    sql: str, first: TypeEngine[T0], second: TypeEngine[T1], last: TypeEngine[T2], /
) -> TextOfRows[T0, T1, T2]: ...


@overload
def typed_text(
    sql: str, first: TypeEngine[T0], second: TypeEngine[T1], other: TypeEngine[T2], last: TypeEngine[T3], /
) -> TextOfRows[T0, T1, T2, T3]: ...


def typed_text(sql: str, *types: AnyType) -> object:
    """Declare the types of the columns that ``sql`` returns, in their order."""
    columns = [column(f"column_{index}", each) for index, each in enumerate(types)]
    kind: type[TextualSelect] = TextOfScalar if len(types) == 1 else TextOfRows
    return kind(text(sql), list(columns), positional=True)
