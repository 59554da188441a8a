"""Read columns straight into a dataclass.

``select(USER)``, with ``USER = record(UserRecord, User)``, gives ``UserRecord`` objects, and so does
``.returning(USER)`` or a place among other columns. It is SQLAlchemy's ``Bundle``, so statements, their SQL
and their types stay SQLAlchemy's own.

The attributes of a model's object (``select(User)``) cost as much to read as all the rest of its row, hence
whatever is read often or in lists is a record (ADR 0033).
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy import FromClause, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Bundle
from sqlalchemy.sql.elements import SQLCoreOperations
from sqlalchemy.types import TypeEngine
from sqlmodel import SQLModel

AnyType = TypeEngine[Any]

R = TypeVar("R")
T = TypeVar("T")


class Record(Bundle[R], Generic[R]):
    """Columns that are read as one value, ``make(*columns)``."""

    inherit_cache = True

    def __init__(self, make: Callable[..., R], *columns: Any) -> None:
        super().__init__(make.__name__, *columns)
        self.make = make
        self.parts = columns


def record(
    cls: type[R], source: type[SQLModel] | FromClause, **given: "SQLCoreOperations[Any] | Record[Any]"
) -> Record[R]:
    """Read the dataclass ``cls`` from columns of the same names, or from those given.

    Raises ``TypeError`` where a model declares a column otherwise than the dataclass its field.
    """
    if not isinstance(source, FromClause):
        _compare(cls, source, except_for=given)
    columns = source.c if isinstance(source, FromClause) else source
    return Record(
        cls,
        *(
            _named(given[name], name) if name in given else getattr(columns, name)
            for name in (field.name for field in fields(cls))  # type: ignore[arg-type]
        ),
    )


class FromJson(TypeDecorator[T], Generic[T]):
    """A JSON column, read as a value of the domain: ``type_coerce(column, FromJson(…))``.

    ``db/prepared`` reads it: JSON arrives as its text.
    """

    impl = JSONB
    cache_ok = False

    def __init__(self, read: Callable[[Mapping[str, Any] | None], T]) -> None:
        super().__init__()
        self.read = read


def _named(given: Any, name: str) -> Any:
    return given if isinstance(given, Record) else given.label(name)


def _compare(cls: type, model: type[SQLModel], *, except_for: Mapping[str, object]) -> None:
    declared, wanted = get_type_hints(model), get_type_hints(cls)
    for field in fields(cls):
        name = field.name
        if name not in except_for and _readable(declared[name]) != _readable(wanted[name]):
            raise TypeError(f"{cls.__name__}.{name} is {wanted[name]}, the column {declared[name]}")


def _readable(hint: Any) -> Any:
    """Return a hint as a reader sees it: a dict is a mapping."""
    return (Mapping, get_args(hint)) if get_origin(hint) in (dict, Mapping) else hint
