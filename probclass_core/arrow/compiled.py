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
    except OSError as error:
        logger.warning("probclass-kernels is not used, its library cannot be loaded: %s", error)
        return None
    if probclass_kernels.INTERFACE != INTERFACE:
        logger.warning(
            "probclass-kernels %s is not used, it is of another release than probclass: "
            "pip install --upgrade probclass-kernels",
            probclass_kernels.__version__,
        )
        return None
    return probclass_kernels
