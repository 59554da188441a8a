"""Make rows of the driver's values: scalars, tuples, records or models, as ``Session.exec`` declares them.

Worked out once per statement. Public names of SQLAlchemy only, but for ``_returning`` and the annotations of its
elements: no other name says which records a RETURNING asks for.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from sqlalchemy import CompoundSelect, Executable, Select, TextClause, UpdateBase
from sqlmodel import SQLModel
from sqlmodel.sql.expression import SelectOfScalar

from codehub.store.db.records import Record
from codehub.store.db.typed_text import TextOfScalar

Build = Callable[[Sequence[Any]], Any]


def columns_of(statement: Executable) -> Sequence[Any]:
    """Return the columns a statement gives; none of a text without types.

    Asked of a copy: SQLAlchemy keeps the answer on the statement, and a statement made from it by ``returning``
    would inherit that it returns nothing.
    """
    if isinstance(statement, TextClause):
        return ()
    return list(cast(Any, statement).execution_options().exported_columns)


def row_builder(statement: Executable) -> Build:
    """Return how a row is made of its values, as ``Session.exec`` declares it."""
    asked = _asked(statement)
    if len(asked) == 1 and isinstance(statement, SelectOfScalar | TextOfScalar):
        return _part(asked[0], 0)[0]
    if not any(_width(each) > 1 for each in asked):
        return tuple
    parts = _parts(asked)
    return lambda values: tuple([part(values) for part in parts])


def _asked(statement: Any) -> list[Any]:
    """Return what a statement asks for: models, records, columns."""
    while isinstance(statement, CompoundSelect):
        statement = statement.selects[0]
    if isinstance(statement, Select):
        return [each["expr"] for each in statement.column_descriptions]
    if isinstance(statement, UpdateBase):
        return [_returned(each) for each in statement._returning]
    return list(columns_of(statement))


def _returned(element: Any) -> Any:
    """Return the record or model that an element of RETURNING stands for; else itself."""
    if getattr(element, "is_selectable", False):
        return element.entity_namespace
    return element._annotations.get("bundle", element)


def _width(asked: Any) -> int:
    if isinstance(asked, Record):
        return sum(_width(each) for each in asked.parts)
    return len(_names(asked)) if _is_model(asked) else 1


def _parts(asked: Sequence[Any], start: int = 0) -> list[Build]:
    parts = []
    for each in asked:
        part, start = _part(each, start)
        parts.append(part)
    return parts


def _part(asked: Any, start: int) -> tuple[Build, int]:
    """Return how one value is made of the values from ``start``, and where the next begins."""
    end = start + _width(asked)
    if isinstance(asked, Record):
        return _record_builder(asked, start, end), end
    if _is_model(asked):
        return _model_builder(asked, start, end), end
    return (lambda values: values[start]), end


def _record_builder(record: Record[Any], start: int, end: int) -> Build:
    make = record.make
    if end - start == len(record.parts):
        return lambda values: make(*values[start:end])
    wide = max(index for index, part in enumerate(record.parts) if _width(part) > 1)
    heads, rest = _parts(record.parts[: wide + 1], start), end - (len(record.parts) - wide - 1)
    return lambda values: make(*[part(values) for part in heads], *values[rest:end])


def _model_builder(model: type[SQLModel], start: int, end: int) -> Build:
    """Return how a model's object is made: a value, without validation and without SQLAlchemy's state.

    A column is never loaded later, and assigning to one raises: nothing would write it.
    """
    names = _names(model)

    def build(values: Sequence[Any]) -> SQLModel:
        made: SQLModel = model.__new__(model)
        made.__dict__.update(zip(names, values[start:end], strict=True))
        return made

    return build


def _is_model(asked: Any) -> bool:
    return isinstance(asked, type) and issubclass(asked, SQLModel)


def _names(model: Any) -> tuple[str, ...]:
    return tuple(column.key for column in model.__table__.columns)
