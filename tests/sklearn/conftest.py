"""Penguins as scikit-learn takes them."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest


@pytest.fixture(scope="module")
def X(penguins: pa.Table) -> pd.DataFrame:
    """Numbers and text, with missing values."""
    return penguins.drop_columns("species").to_pandas()


@pytest.fixture(scope="module")
def y(penguins: pa.Table) -> pd.Series:
    return penguins["species"].to_pandas().rename("species")
