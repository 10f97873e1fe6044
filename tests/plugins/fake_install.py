"""Write plugins to disk as pip would install them, and run a fresh Python that finds them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PLUGIN = '''
"""An exponential density of one positive column, written against the public contract."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

import probclass_core as pc


class Exponential(pc.Estimator):
    name = "{name}"

    def summarize(self, rows, classes, weights):
        weight = np.ones(len(rows)) if weights is None else weights
        values = rows.numbers(self.features.names[0])
        return self.merge([pa.table({{
            "class": classes.dictionary_decode(), "count": weight, "sum": weight * values,
        }})])

    def merge(self, tables):
        grouped = pa.concat_tables(tables).group_by("class", use_threads=False)
        merged = grouped.aggregate([("count", "sum"), ("sum", "sum")])
        return merged.rename_columns(["class", "count", "sum"]).sort_by("class")

    def finalize(self, statistics, classes):
        rows = compute.index_in(classes, value_set=statistics["class"].combine_chunks())
        cells = statistics.take(rows)
        return pa.table({{"class": classes, "rate": compute.divide(cells["count"], cells["sum"])}})

    def likelihood(self, parameters, classes):
        return ExponentialLikelihood(self.features.names[0], parameters["rate"].to_numpy())


class ExponentialLikelihood:
    normalized = True

    def __init__(self, column, rate):
        self.column, self.rate = column, rate

    def log_likelihood(self, rows):
        x = rows.numbers(self.column)
        return np.log(self.rate) - self.rate * x[:, None]


PROBCLASS_API = 1

@pc.hookimpl
def probclass_estimators():
    yield Exponential
'''

SCRIPT_START = """
import json, logging, sys
import numpy as np, pyarrow as pa
import probclass_core as pc
table = pa.table({"x": [1.0, 2.0, 3.0, 10.0, 20.0, 30.0], "y": list("aaabbb")})
"""


def install(folder: Path, distribution: str, source: str, version: str = "1.2") -> None:
    """Write a module and its metadata in the form of an installed wheel."""
    folder.mkdir(exist_ok=True)
    module = distribution.replace("-", "_")
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text(f"[probclass]\n{module} = {module}\n")


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh Python that finds the plugins in the folder."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", SCRIPT_START + script],
        env={**os.environ, "PYTHONPATH": path},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
