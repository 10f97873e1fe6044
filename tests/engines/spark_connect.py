"""Run everything on Spark Connect in another process: ``python spark_connect.py <lake> <folder>``.

It fits, summarizes, evaluates and scores the lake, and prints the results as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lakes import digests
from model_values import digest_of
from pyspark.sql import SparkSession
from workloads import SPEC

import probclass_core as pc


def main(lake: Path, folder: Path) -> None:
    """Run every step on a session of Spark Connect, and print the results."""
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    model = pc.fit(lake, SPEC, engine=session)
    report = pc.score(model, lake, folder / "scored", engine="spark")
    results = {
        "session": type(session).__module__,
        "model": model.id,
        "statistics": digest_of(pc.summarize(lake, SPEC, engine=session)),
        "log_loss": pc.evaluate(model, lake, engine=session).log_loss,
        "rows": report.rows,
        "digests": digests(folder / "scored"),
    }
    sys.stdout.write(json.dumps(results))
    session.stop()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
