"""Models, kept statistics and files with one thing wrong: refused, or used as is promised."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hostile_bundles
import hostile_packs
import hostile_parquet
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as pq
import pytest
from campaign import run
from hostile_bundles import PLUGINS, SPECS, rows, with_value
from hostile_packs import keep

import probclass_core as pc
from probclass_core.arrow.bundle import pack_tables
from probclass_core.errors import hide_credentials
from probclass_core.estimation.statistics import Statistics, merge, summarize_batches
from probclass_core.store.statistics_cache import Entry, encode_pack, pack_name

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")


@pytest.mark.parametrize(
    ("campaign", "count"),
    [(hostile_bundles, 500), (hostile_packs, 250), (hostile_parquet, 100)],
    ids=["bundles", "packs", "parquet"],
)
def test_no_damage_passes_in_silence(campaign: Any, count: int) -> None:
    """PROBCLASS_DAMAGE makes that many times as many trials; -rP prints what became of them."""
    count *= int(os.environ.get("PROBCLASS_DAMAGE", "1"))
    with campaign.trials() as trial:
        tally = run(trial, range(count))
    for outcome, trials in sorted(tally.outcomes.items()):
        sys.stdout.write(f"{trials:9,} {outcome}\n")
    assert not tally.defects
    found = [tally.outcomes[key] for key in tally.outcomes if key.endswith(("warned", "refused"))]
    assert sum(found) > 0.4 * count


def statistics_of(name: str, table: pa.Table, **spec: Any) -> Statistics:
    values = pc.ModelSpec("y", **SPECS[name], **spec)
    return summarize_batches(values, table.schema, table.to_batches())


@pytest.mark.parametrize("name", SPECS)
def test_what_training_makes_is_accepted(name: str) -> None:
    table = rows()
    halves = [table.slice(0, 25), table.slice(25)]
    with pc.trying(*PLUGINS):
        parts = [statistics_of(name, half) for half in halves]
        for statistics in [*parts, merge(parts), statistics_of(name, table.slice(0, 0))]:
            statistics.check()
        if name != "weights":
            weighted = table.append_column("weight", compute.cast(table["j"], pa.float64()))
            statistics_of(name, weighted, weight="weight").check()


@pytest.mark.parametrize(
    ("name", "table", "column", "change", "message"),
    [
        ("gaussian_diagonal", "gaussian_diagonal", "scatter", lambda _: -1.0, "scatter is another"),
        ("gaussian_diagonal", "gaussian_diagonal", "mean", lambda _: float("nan"), "mean is"),
        ("gaussian_diagonal", "gaussian_diagonal", "count", lambda n: n + 99, "rows of"),
        ("gaussian_diagonal", "gaussian_diagonal", "feature", lambda _: "q", "rows repeat another"),
        ("gaussian_diagonal", "classes", "rows", lambda n: n + 1, "labeled rows of 60"),
        ("gaussian_diagonal", "_columns", "nulls", lambda _: 61, "profile of column 'x'"),
        ("categorical", "categorical", "count", lambda n: -n, "count is -"),
        ("discretized", "discretized", "width", lambda _: 8.0, "are not those of a grid"),
        ("bernoulli", "bernoulli", "count", lambda n: n + 30, "more rows than"),
        ("weights", "sample", "x", lambda _: 4.5, "hashes of the sample"),
        ("weights", "sample", "__count__", lambda _: 1e6, "a wrong count"),
    ],
)
def test_statistics_of_no_rows_are_computed_again(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    table: str,
    column: str,
    change: Callable[[Any], Any],
    message: str,
) -> None:
    pq.write_table(rows(), tmp_path / "rows.parquet")
    (kept,) = keep(name, tmp_path / "rows.parquet", tmp_path / "store")
    right = kept.tables[table]
    value = change(right[column][0].as_py())
    wrong = {**kept.tables, table: with_value(right, column, 0, value)}
    entry = Entry(60, 0, pack_tables(wrong, stream=True), kept.entry.footers)
    data = encode_pack(kept.summary, {kept.unit: entry})
    kept.path.unlink()
    kept.path.with_stem(pack_name(data)).write_bytes(data)
    model = pc.fit(tmp_path / "rows.parquet", kept.spec, cache=tmp_path / "store")
    assert model.id == kept.id
    assert model.training["cache"]["reused"] == 0
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("Statistics are computed again: ")
    assert compute.match_substring_regex(warning, message).as_py(), warning


def test_a_long_text_in_a_message_takes_no_time() -> None:
    # One step for each letter; without a bound on the scheme, this takes a quarter of an hour.
    assert hide_credentials("x" * 1_000_000) == "x" * 1_000_000
    assert hide_credentials("see s3+long://me:secret@bucket/a") == "see s3+long://***@bucket/a"
