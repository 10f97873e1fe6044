"""A session of Spark Connect, in a process of its own: ``python connected.py <lake> <folder>``.

It fits, summarizes, evaluates and scores the lake, and prints what came of it as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from tasks import SPEC, digests

import probclass_core as pc


def main(lake: Path, folder: Path) -> None:
    """Do everything by the session, and tell."""
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    model = pc.fit(lake, SPEC, engine=session)
    report = pc.score(model, lake, folder / "scored", engine="spark")
    told = {
        "session": type(session).__module__,
        "model": model.id,
        "statistics": pc.summarize(lake, SPEC, engine=session).to_bundle().content_id,
        "log_loss": pc.evaluate(model, lake, engine=session).log_loss,
        "rows": report.rows,
        "digests": digests(folder / "scored"),
    }
    sys.stdout.write(json.dumps(told))
    session.stop()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
