"""The compiled loops of probclass-kernels, a distribution of its own, if it is installed.

Where a loop is called there is NumPy code too, for machines without it and for few rows. Both give
the same bits.
"""

from __future__ import annotations

import functools
import logging
from types import ModuleType

INTERFACE = 8
"""Version of the functions that are called."""

_LEAST_ROWS = 512
"""Below this number of rows, a call takes longer than the loop saves."""

logger = logging.getLogger(__name__)


def kernels(rows: int) -> ModuleType | None:
    """The module ``probclass_kernels``; None without it, and for few rows."""
    return _installed() if rows >= _LEAST_ROWS else None


@functools.cache
def _installed() -> ModuleType | None:
    try:
        import probclass_kernels
    except ImportError:
        return None
    except (OSError, AttributeError) as error:  # no library, or one that lacks a function
        logger.warning("probclass-kernels is not used, its library cannot be loaded: %s", error)
        return None
    # What is left of an old one, without its __init__.py, can be imported as well.
    if getattr(probclass_kernels, "INTERFACE", None) != INTERFACE:
        logger.warning(
            "probclass-kernels in %s is not used, it is of another release than probclass: "
            "pip install --upgrade probclass-kernels",
            next(iter(probclass_kernels.__path__)),
        )
        return None
    return probclass_kernels
