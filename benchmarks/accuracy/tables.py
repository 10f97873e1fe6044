"""Tables to classify: real ones with known provenance, generated ones, and tables of users.

A metric of a table is an average over its folds: stratified and shuffled (seed 0), ten of them if
the table has less than 2,000 rows and five otherwise, of which the first three are used by default.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.accuracy import generators
from benchmarks.accuracy.generators import LABEL, Rows
from probclass_core.demo.examples import example_file

ROOT = Path(__file__).parents[2]
SMALL = 2_000
"""Tables with fewer rows are split into ten folds, others into five."""

Split = tuple[np.ndarray, np.ndarray]
"""Row numbers to train on, row numbers to test on."""


@dataclass(frozen=True)
class Table:
    """A table, how it is split, and what probclass should reach on it.

    Attributes:
        name: name on the command line.
        kind: whether the rows were observed or generated; averages are computed by kind.
        description: one line on what it is.
        load: function that reads or generates the rows.
        split: function of the rows and the number of folds that gives the folds.
        limits: largest values that a model should reach: model name to metric to value.
    """

    name: str
    kind: Literal["real", "generated"]
    description: str
    load: Callable[[], Rows]
    split: Callable[[Rows, int], list[Split]]
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def stratified(rows: Rows, folds: int) -> list[Split]:
    """The first of ten or five stratified folds."""
    from sklearn.model_selection import StratifiedKFold

    number = 10 if len(rows.labels) < SMALL else 5
    with warnings.catch_warnings():
        # A class with fewer rows than folds is in some folds only, which is what is tested.
        warnings.filterwarnings("ignore", message="The least populated class")
        every = StratifiedKFold(number, shuffle=True, random_state=0).split(
            rows.labels, rows.labels
        )
        return list(islice(every, folds))


def original(train_rows: int, rows: Rows, folds: int) -> list[Split]:
    """The split that the publisher of the table made."""
    everything = np.arange(len(rows.labels))
    return [(everything[:train_rows], everything[train_rows:])]


def seven_to_three(rows: Rows, folds: int) -> list[Split]:
    """Two stratified splits into 70 and 30 %."""
    from sklearn.model_selection import StratifiedShuffleSplit

    splitter = StratifiedShuffleSplit(2, test_size=0.3, random_state=0)
    return list(splitter.split(rows.labels, rows.labels))


def rows_of(table: pa.Table, label: str = LABEL) -> Rows:
    """Rows of a table whose classes are in a column.

    Raises:
        ValueError: if there is no such column, or it contains nulls.
    """
    if label not in table.schema.names:
        raise ValueError(f"no column {label!r}; the table has {', '.join(table.schema.names)}.")
    if table[label].null_count:
        nulls = table[label].null_count
        raise ValueError(f"column {label!r} has {nulls} nulls; remove those rows.")
    labels = np.array([str(value) for value in table[label].to_pylist()], dtype=object)
    return Rows(table.drop_columns([label]), labels)


def from_file(path: Path, label: str = LABEL) -> Table:
    """A table of the user: Parquet or CSV, one column of which is the class."""

    def load() -> Rows:
        read = pyarrow.csv.read_csv if path.suffix == ".csv" else pq.read_table
        return rows_of(read(path), label)

    return Table(path.stem, "real", str(path), load, stratified)


def _stored(name: str) -> Rows:
    return rows_of(pq.read_table(ROOT / "benchmarks" / "data" / f"{name}.parquet"))


def _adult() -> Rows:
    parts = (example_file(f"adult_{part}.parquet") for part in ("train", "test"))
    return rows_of(pa.concat_tables(pq.read_table(part) for part in parts), "income")


def _penguins() -> Rows:
    table = pyarrow.csv.read_csv(
        example_file("penguins.csv"),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
    )
    return rows_of(table, "species")


def _beijing() -> Rows:
    """Every fifth hour; air is good, moderate or unhealthy by its PM2.5."""
    table = pq.read_table(ROOT / "probclass_core" / "demo" / "beijing_pm25.parquet")
    table = table.filter(compute.is_valid(table["pm25"])).take(
        pa.array(np.arange(0, len(table) - table["pm25"].null_count, 5))
    )
    concentration, time = table["pm25"].to_numpy(), table["time"]
    names = np.array(["good", "moderate", "unhealthy"], dtype=object)
    features = table.drop_columns(["pm25", "time"])
    for part in ("month", "hour"):
        features = features.append_column(part, getattr(compute, part)(time))
    return Rows(features, names[np.searchsorted([35.0, 115.0], concentration)])


def _bundled(name: str) -> Rows:
    """A data set that scikit-learn contains."""
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    columns = [str(column).replace(" ", "_") for column in data.feature_names]
    table = pa.table({column: data.data[:, j] for j, column in enumerate(columns)})
    return Rows(table, data.target_names[data.target].astype(str).astype(object))


def _both(default: float, best: float) -> dict[str, dict[str, float]]:
    return {"default": {"log_loss": default}, "best": {"log_loss": best}}


def _real() -> Iterator[Table]:
    adult = "Adult: income above 50,000 a year"
    reached = {"error": 0.128, "log_loss": 0.280, "ece": 0.010, "fit_seconds": 5.0}
    yield Table(
        "adult",
        "real",
        f"{adult}, the original split",
        _adult,
        partial(original, 32_561),
        {"default": reached},
    )
    yield Table(
        "adult-70-30",
        "real",
        f"{adult}, two splits into 70 and 30 %",
        _adult,
        seven_to_three,
        {"default": {"error": 0.131, "log_loss": 0.285}},
    )
    stored = {
        "german": ("good or bad credit", 0.54, 0.53),
        "soybean": ("diseases of soybeans, many values missing", 0.14, 0.14),
        "segment": ("surfaces in regions of images", 0.09, 0.065),
        "titanic": ("passengers who survived", 0.40, 0.38),
        "oil-spill": ("oil spills among dark spots in radar images, 4 % of the rows", 0.18, 0.17),
        "diamonds": ("quality of the cut", 0.70, 0.67),
    }
    for name, (description, *limits) in stored.items():
        load = partial(_stored, name)
        yield Table(name, "real", description, load, stratified, _both(*limits))
    bundled = {
        "digits": "handwritten digits of 8 × 8 pixels",
        "breast_cancer": "benign or malignant tumors",
        "wine": "growers of wine",
        "iris": "species of iris",
    }
    for name, description in bundled.items():
        limit = _both(0.12, 0.08) if name == "digits" else {}
        yield Table(name, "real", description, partial(_bundled, name), stratified, limit)
    yield Table("penguins", "real", "species of penguins", _penguins, stratified)
    yield Table("beijing", "real", "quality of Beijing's air by weather", _beijing, stratified)


def _german_random() -> Rows:
    return generators.with_random_column(_stored("german"))


def _generated() -> Iterator[Table]:
    for load in generators.GENERATORS:
        description = (load.__doc__ or "").partition("\n")[0].removesuffix(".")
        name = load.__name__.replace("_", "-")
        yield Table(name, "generated", description, load, stratified)
    yield Table(
        "german-random",
        "generated",
        "german with a column of 300 random levels",
        _german_random,
        stratified,
    )


TABLES: dict[str, Table] = {table.name: table for table in (*_real(), *_generated())}
"""The tables by name: real ones first."""
