"""What a statement gives back: its rows, or how many rows it wrote."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from codehub.store.errors import NoResult

T = TypeVar("T")


class Rows(Sequence[T], Generic[T]):
    """All rows a statement returned, as its own types say."""

    def __init__(self, rows: Sequence[T]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[T]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: "slice[int | None, int | None, int | None]") -> Sequence[T]: ...

    def __getitem__(self, index: "int | slice[int | None, int | None, int | None]") -> T | Sequence[T]:
        return self._rows[index]

    def all(self) -> Sequence[T]:
        return self._rows

    def first(self) -> T | None:
        return self._rows[0] if self._rows else None

    def one(self) -> T:
        """Return the only row. Raises ``NoResult`` if there is none, or several."""
        if len(self._rows) != 1:
            raise NoResult(f"one row was expected, there are {len(self._rows)}")
        return self._rows[0]

    def one_or_none(self) -> T | None:
        """Return the only row, if there is one. Raises ``NoResult`` if there are several."""
        return self.one() if self._rows else None


@dataclass(frozen=True)
class Written:
    """The result of a statement without rows."""

    rowcount: int
