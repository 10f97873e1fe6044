"""Errors that users see: one line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refused(
    error: type[BaseException] | tuple[type[BaseException], ...], message: str
) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """Expect an error of one line whose text matches a regular expression."""
    with pytest.raises(error, match=message) as caught:
        yield caught
    assert "\n" not in str(caught.value)
