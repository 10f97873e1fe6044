"""Of two processes that promote at the same instant, one wins.

``PROBCLASS_RACES`` is the number of races on each object store; ``make promoters``
runs 1,000 of them, in lanes of 50 at the same time.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from buckets import Bucket
from python_processes import start_python
from sample_models import SampleModel

import probclass_core as pc

RACES = int(os.environ.get("PROBCLASS_RACES", "5"))
LANES = max(1, RACES // 50)
LANE = RACES // LANES

pytestmark = [
    pytest.mark.services,
    pytest.mark.parametrize("lane", range(LANES)),
    pytest.mark.parametrize("bucket", ["s3", "azure", "google"], indirect=True),
]


class Contender:
    """A process that promotes when it is asked to."""

    def __init__(self, bucket: Bucket) -> None:
        script = Path(__file__).with_name("contenders.py")
        self.process = start_python(
            *(script, uri(bucket, "models")),
            env={"OPTIONS": json.dumps(bucket.options)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def uri(bucket: Bucket, path: str) -> str:
    return f"{bucket.scheme}://{bucket.name}/{path}"


def winner_of(contenders: list[Contender], lost: str) -> int:
    """Return which contender won a race, and check that the other one lost it."""
    answers = [contender.answer() for contender in contenders]
    [winner] = [number for number, answer in enumerate(answers) if answer == "won"]
    assert lost in answers[1 - winner]
    return winner


@pytest.fixture
def contenders(bucket: Bucket) -> Iterator[list[Contender]]:
    with ExitStack() as running:
        yield [running.enter_context(Contender(bucket)) for _ in range(2)]


def test_two_contenders_have_one_winner(
    bucket: Bucket, contenders: list[Contender], lane: int
) -> None:
    store = pc.ModelStore(uri(bucket, "models"), options=bucket.options)
    versions = [store.save(SampleModel(seed), "air") for seed in range(3)]
    champion, promoted = "none", []
    for _ in range(LANE):
        challengers = [version.id for version in versions if version.id != champion][:2]
        for contender, challenger in zip(contenders, challengers, strict=True):
            contender.ask(challenger, champion)
        champion = challengers[winner_of(contenders, "was promoted by another process")]
        promoted.append(champion)
        assert store.resolve("air@champion").id == champion
    # Each promotion is in the ledger, in the order in which they won.
    history = [entry for entry in store.history("air") if entry.action == "promoted"]
    assert [entry.id for entry in history] == promoted
    assert [entry.previous for entry in history] == [None, *promoted[:-1]]
