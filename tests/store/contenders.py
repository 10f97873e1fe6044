"""Processes that contend for an alias and for a partition on an object store.

Run as ``python contenders.py <store> <table>``, with the options of both as JSON in ``OPTIONS``.
Each line of input is one race; the output is ``won``, or why it was lost.
"""

from __future__ import annotations

import json
import os
import sys

import pyarrow as pa

import probclass_core as pc
from probclass_core.io.open import open_sink

OPTIONS = json.loads(os.environ["OPTIONS"])
STORE = pc.ModelStore(sys.argv[1], options=OPTIONS)
TABLE = pc.TableRef(sys.argv[2], options=OPTIONS)


def promote(version: str, expected: str) -> None:
    """Promote a version in place of the expected one, or of none."""
    STORE.promote(
        *("air", version, "champion"),
        expected=None if expected == "none" else expected,
        force=True,  # else each promotion of a version that was there before reads all entries
        reason="a race",
    )


def replace(value: str) -> None:
    """Replace a partition: a line of output says that its rows are written, and a line commits."""
    rows = pa.table({"value": [int(value)]})
    with open_sink(TABLE, {"month": "2014-01"}).stage(rows.schema, {"commit_id": value}) as staged:
        [part] = staged.parts(1)
        for batch in rows.to_batches():
            part.write(batch)
        report("staged")
        sys.stdin.readline()
        staged.publish()


def report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


while line := sys.stdin.readline():
    contend, *arguments = line.split()
    try:
        {"promote": promote, "replace": replace}[contend](*arguments)
        report("won")
    except pc.ProbClassError as error:
        report(str(error))
