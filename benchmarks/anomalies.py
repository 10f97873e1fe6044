"""How well densities without labels find anomalies, compared with other detectors.

python -m benchmarks.anomalies FOLDER [--record]

FOLDER has the files ``*.npz`` of ADBench's classical tables (Han et al., "ADBench: Anomaly
detection benchmark", 2022), which are in ``adbench/datasets/Classical`` of its repository::

    git clone --depth 1 https://github.com/Minqi824/ADBench

Its tables of at most `MOST_ROWS` rows and `MOST_COLUMNS` columns are compared, then mixed tables of
`accuracy`, whose rarest class are the anomalies, as they are and without a tenth of their values.

A detector that raises an error counts as one that guesses.

- ``half``: trained on a random half of the normal rows, tested on all others.
- ``all``: trained and tested on all rows; of the mixed tables at most 5 % are anomalies.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

import probclass_core as pc
from benchmarks import figures, report
from benchmarks.accuracy.tables import ROOT, TABLES

MOST_ROWS, MOST_COLUMNS = 12_000, 60
MIXED = ("adult", "german", "titanic")
PROTOCOLS = ("half", "all")
SEEDS = 1
"""Random halves of each table."""

_MOST_MIXED_ROWS = 10_000
_RARE = 0.05
"""Largest share of anomalies of a mixed table that is trained on them."""

Split = tuple[pd.DataFrame, pd.DataFrame, np.ndarray]
"""Rows to train on, rows to test on, and which of these are anomalies."""

Detector = Callable[[pd.DataFrame, pd.DataFrame], np.ndarray]
"""Scores of the rows to test on, larger for anomalies, from the rows to train on and these."""


def ours(**options: Any) -> Detector:
    """The spec of `ModelSpec.auto` without a label, under these options."""

    def detect(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
        rows = pa.Table.from_pandas(train, preserve_index=False)
        model = pc.fit(rows, pc.ModelSpec.auto(rows, None, **options), workers=1)
        return -model.score_samples(pa.Table.from_pandas(test, preserve_index=False))

    return detect


def peer(make: Callable[[], Any]) -> Detector:
    """A detector of numbers: categories as one-hot columns, nulls by medians."""

    def detect(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
        numbers = encoded(train, test)
        detector = make().fit(numbers[: len(train)])
        if hasattr(detector, "score_samples"):
            return -np.asarray(detector.score_samples(numbers[len(train) :]))
        return np.asarray(detector.decision_function(numbers[len(train) :]))  # of PyOD

    return detect


def encoded(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Both as numbers in units of the standard deviations of the rows to train on."""
    numbers = train.select_dtypes("number").columns
    rows = pd.concat([train, test])
    known = rows[numbers].fillna(train[numbers].median())
    scale = train[numbers].std(ddof=0).replace(0.0, 1.0)
    others = rows.drop(columns=numbers).astype(object)
    hot = pd.get_dummies(others, dummy_na=True) if len(others.columns) else others
    return np.hstack([((known - known.mean()) / scale).to_numpy(), hot.to_numpy(float)])


def _forest() -> Any:
    from sklearn.ensemble import IsolationForest

    return IsolationForest(random_state=0)


def _outlier_factor() -> Any:
    from sklearn.neighbors import LocalOutlierFactor

    return LocalOutlierFactor(novelty=True)


def _of_pyod(name: str) -> Callable[[], Any]:
    def make() -> Any:
        from importlib import import_module

        return getattr(import_module(f"pyod.models.{name.lower()}"), name)()

    return make


DETECTORS: Mapping[str, Detector] = {
    "default": ours(),
    "sql": ours(sql=True),
    "fast": ours(effort="fast"),
    "isolation forest": peer(_forest),
    "LOF": peer(_outlier_factor),
    "KNN": peer(_of_pyod("KNN")),
    "ECOD": peer(_of_pyod("ECOD")),
    "COPOD": peer(_of_pyod("COPOD")),
    "HBOS": peer(_of_pyod("HBOS")),
}


def adbench(folder: Path) -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Name, rows and anomalies of each table that is not too large."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=True) as stored:
            values, anomalies = stored["X"].astype(float), stored["y"].astype(bool).ravel()
        if len(values) <= MOST_ROWS and values.shape[1] <= MOST_COLUMNS:
            columns = [f"x{place}" for place in range(values.shape[1])]
            yield path.stem, pd.DataFrame(values, columns=columns), anomalies


def mixed(nulls: float) -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """The same of mixed tables, without a share of their values."""
    for name in MIXED:
        rows = TABLES[name].load()
        random = np.random.default_rng(0)
        chosen = np.sort(random.permutation(len(rows.labels))[:_MOST_MIXED_ROWS])
        frame = rows.features.take(pa.array(chosen)).to_pandas()
        labels = rows.labels[chosen].astype(str)
        rarest = min(np.unique(labels), key=lambda label: np.count_nonzero(labels == label))
        yield name, frame.mask(random.random(frame.shape) < nulls), labels == rarest


def split(
    frame: pd.DataFrame, anomalies: np.ndarray, protocol: str, seed: int, rare: float = 1.0
) -> Split:
    """The rows of a protocol.

    Args:
        frame: all rows.
        anomalies: which of them are anomalies.
        protocol: one of `PROTOCOLS`.
        seed: seed of the choice of rows.
        rare: largest share of anomalies among rows to train on.
    """
    random = np.random.default_rng(seed)
    normal = np.flatnonzero(~anomalies)
    if protocol == "half":
        train = np.zeros(len(frame), dtype=bool)
        train[random.permutation(normal)[: len(normal) // 2]] = True
        return frame[train], frame[~train], anomalies[~train]
    most = int(len(normal) * rare / (1.0 - rare)) if rare < 1.0 else len(frame)
    kept = np.sort(np.append(normal, random.permutation(np.flatnonzero(anomalies))[:most]))
    return frame.iloc[kept], frame.iloc[kept], anomalies[kept]


def measure(folder: Path) -> dict[str, Any]:
    """AUROC, average precision and seconds by kind of tables, protocol, detector and table."""
    kinds = {
        "ADBench": (adbench(folder), 1.0),
        "mixed": (mixed(0.0), _RARE),
        "mixed, 10 % nulls": (mixed(0.1), _RARE),
    }
    measured: dict[str, Any] = {}
    for kind, (tables, rare) in kinds.items():
        for name, frame, anomalies in tables:
            for protocol in PROTOCOLS:
                seeds = SEEDS if protocol == "half" or rare < 1.0 else 1
                splits = [split(frame, anomalies, protocol, seed, rare) for seed in range(seeds)]
                of_table = measured.setdefault(kind, {}).setdefault(protocol, {})
                for detector, detect in DETECTORS.items():
                    scores = np.mean([_scores(detect, one) for one in splits], axis=0)
                    of_table.setdefault(detector, {})[name] = scores.tolist()
                print(kind, name, protocol, flush=True, file=sys.stderr)
    return {"kinds": measured}


def _scores(detect: Detector, rows: Split) -> tuple[float, float, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    train, test, anomalies = rows
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers
        try:
            scores = np.nan_to_num(detect(train, test))
        except ValueError as error:  # HBOS does not cut a column of nearly one value
            print(f"taken as a guess: {error}", file=sys.stderr)
            scores = np.zeros(len(test))
    seconds = time.perf_counter() - began
    return roc_auc_score(anomalies, scores), average_precision_score(anomalies, scores), seconds


Part = Literal["means", "mixed"]


def table(measured: Mapping[str, Any], part: Part) -> str:
    """What `measure` returned as a Markdown table: means by kind, or AUROC by mixed table."""
    kinds = measured["kinds"]
    if part == "means":
        columns = ["tables", "detector"]
        columns += [f"{name}, {one}" for one in PROTOCOLS for name in ("AUROC", "AP", "seconds")]
        rows = []
        for kind, protocols in kinds.items():
            for detector, by_table in protocols["half"].items():
                means = [
                    np.mean([*protocols[protocol][detector].values()], axis=0)
                    for protocol in PROTOCOLS
                ]
                texts = [f"{a:.3f} {p:.3f} {s:.2f}".split() for a, p, s in means]
                rows.append([f"{kind} ({len(by_table)})", detector, *texts[0], *texts[1]])
        return report.table(columns, rows, words=2)
    compared = [
        (one, detector) for one in PROTOCOLS for detector in ("default", "isolation forest")
    ]
    rows = [
        [name, kind, *(f"{kinds[kind][one][detector][name][0]:.3f}" for one, detector in compared)]
        for kind in [*kinds][1:]
        for name in kinds[kind]["half"]["default"]
    ]
    return report.table(["table", "values", *(f"{d}, {one}" for one, d in compared)], rows, words=2)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.anomalies", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of ADBench's classical tables")
    parser.add_argument("--record", action="store_true", help="store the figures")
    options = parser.parse_args()
    sys.path.append(str(ROOT / ".peers"))  # last, so that packages of this environment come first
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    measured = measure(options.folder)
    if options.record:
        figures.record("anomalies", measured)
    print(table(measured, "means"), table(measured, "mixed"), sep="\n\n")


if __name__ == "__main__":
    main()
