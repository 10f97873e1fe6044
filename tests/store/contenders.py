"""Processes that contend for an alias on an object store.

Run as ``python contenders.py <store>``, with its options as JSON in ``OPTIONS``.
Each line of input is one race; the output is ``won``, or why it was lost.
"""

from __future__ import annotations

import json
import os
import sys

import probclass_core as pc

OPTIONS = json.loads(os.environ["OPTIONS"])
STORE = pc.ModelStore(sys.argv[1], options=OPTIONS)


def promote(version: str, expected: str) -> None:
    """Promote a version in place of the expected one, or of none."""
    STORE.promote(
        *("air", version, "champion"),
        expected=None if expected == "none" else expected,
        force=True,  # else each promotion of a version that was there before reads all entries
        reason="a race",
    )


def report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


while line := sys.stdin.readline():
    try:
        promote(*line.split())
        report("won")
    except pc.ProbClassError as error:
        report(str(error))
