"""Tables that are filtered, sorted and divided into pages by their address, without a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, Field

PAGE_ROWS = 50

Row = TypeVar("Row")


class Wanted(BaseModel):
    """What an address asks of a table.

    Attributes:
        q: words that rows must contain; upper and lower case are equal.
        sort: key to sort by, after a ``-`` in descending order.
        page: number of the page, from 1.
    """

    q: str = Field("", max_length=200)
    sort: str = Field("", max_length=40)
    page: int = Field(1, ge=1, le=10**6)


@dataclass(frozen=True)
class Listing(Generic[Row]):
    """One page of a table.

    Attributes:
        rows: the rows of the page.
        matching: number of rows on all pages.
        total: number of rows without the filter.
        page: number of the page, from 1.
        pages: number of pages.
        q: words of the filter.
        sort: key that the rows are sorted by, after a ``-`` in descending order.
    """

    rows: list[Row]
    matching: int
    total: int
    page: int
    pages: int
    q: str
    sort: str

    def address(self, *, sort: str | None = None, page: int = 1) -> str:
        """The query of another page or order of the same table."""
        values = {"q": self.q, "sort": sort or self.sort, "page": page}
        return "?" + urlencode({key: value for key, value in values.items() if value})

    def order(self, key: str) -> str:
        """The key to sort by after a click on its column: the reverse if it is sorted by it."""
        return f"-{key}" if self.sort == key else key


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A table of a page.

    Attributes:
        rows: returns the rows of what is shown, such as the records of a model.
        text: the text of a row that the filter searches.
        keys: what rows are sorted by; rows without a value come last.
        order: default order, one of the keys, after a ``-`` in descending order.
    """

    rows: Callable[[Any], Sequence[Row]]
    text: Callable[[Row], str]
    keys: Mapping[str, Callable[[Row], Any]]
    order: str

    def listing(self, shown: Any, wanted: Wanted) -> Listing[Row]:
        """One page of the rows that an address asks for."""
        rows = self.rows(shown)
        order = wanted.sort if wanted.sort.removeprefix("-") in self.keys else self.order
        key = self.keys[order.removeprefix("-")]
        words = wanted.q.lower().split()
        matching = [row for row in rows if all(word in self.text(row).lower() for word in words)]
        known = [row for row in matching if key(row) is not None]
        known.sort(key=key, reverse=order.startswith("-"))
        ordered = known + [row for row in matching if key(row) is None]
        pages = max(1, -(-len(ordered) // PAGE_ROWS))
        page = min(wanted.page, pages)
        return Listing(
            rows=ordered[PAGE_ROWS * (page - 1) : PAGE_ROWS * page],
            matching=len(ordered),
            total=len(rows),
            page=page,
            pages=pages,
            q=wanted.q,
            sort=order,
        )
