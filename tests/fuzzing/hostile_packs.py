"""Kept statistics with one thing wrong: what a fit makes of them.

A trial changes one field of a pack: a column of its head, its summary, a column, the rows, the
notes or the bytes of a table of statistics, or bytes of the file. The checksums are those of the
changed values, or, in one trial of five, those of the values before the change. A fit then reads
the pack: it must give the model that it gives without the pack. Numbers of other rows under right
checksums cannot be told from the right ones: the model must be one that a store would load.
"""

from __future__ import annotations

import logging
import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from campaign import Result, Trial
from hostile_bundles import (
    PLUGINS,
    SPECS,
    Field,
    Path_,
    by_kind,
    changed_bytes,
    changed_table,
    fields_of_tables,
    memory_folder,
    rows,
    shown,
    unusual_rows,
)

import probclass_core as pc
from probclass_core.arrow.bundle import pack_tables, unpack_tables
from probclass_core.errors import StoreError
from probclass_core.io.table import Footer
from probclass_core.model.stored import model_from_bundle
from probclass_core.store.statistics_cache import Entry, decode_pack, encode_pack, pack_name

CANNOT_BE_WRITTEN = (ValueError, TypeError, OverflowError, AttributeError)
"""Errors of Arrow, JSON and our own writers for values that no file can contain."""

SHARES = {"column": 5, "rows": 1, "note": 1, "bytes": 1, "head": 2, "summary": 1, "file": 2}
"""Kinds of fields, and how often they are changed."""


@dataclass(frozen=True)
class Kept:
    """The statistics of one model, and the model.

    Attributes:
        spec: its spec.
        path: path of the pack.
        data: bytes of the pack.
        summary: what the pack has statistics of.
        unit: digest of its one unit.
        entry: the entry of the unit.
        tables: tables of the entry.
        id: id of the model.
    """

    spec: pc.ModelSpec
    path: Path
    data: bytes
    summary: str
    unit: str
    entry: Entry
    tables: Mapping[str, pa.Table]
    id: str


def keep(name: str, table: Path, store: Path) -> Iterator[Kept]:
    """Fit a model with a cache, and return what it kept of each pass."""
    spec = pc.ModelSpec("y", **SPECS[name])
    model = pc.fit(table, spec, cache=store)
    for path in sorted(store.rglob("*.arrow")):
        data = path.read_bytes()
        summary, entries = decode_pack(data, path.stem, name)
        ((unit, entry),) = entries.items()
        tables = unpack_tables(entry.tables, stream=True)
        yield Kept(spec, path, data, summary, unit, entry, tables, model.id)


def fields_of(kept: Kept) -> Iterator[Field]:
    """Kind and place of all fields of a pack."""
    yield from fields_of_tables(kept.tables)
    for head in ("unit", "rows", "null_labels", "footer"):
        yield "head", (head,)
    yield "summary", ()
    yield "file", ()


def changed_entry(kept: Kept, kind: str, path: Path_, draw: random.Random) -> Entry:
    """The entry with a change of one field."""
    entry = kept.entry
    if kind == "head":
        if path[0] == "footer":
            (footer,) = entry.footers
            counts = draw.choice([(), (0,), (-1,), (10**12,), (*footer.rows, 5), footer.rows * 2])
            fields = list(footer.schema)
            schema = pa.schema(draw.choice([fields[1:], fields[::-1], [*fields, fields[0]]]))
            other = draw.choice([footer.file[::-1], footer.file])
            changes = [{"rows": counts}, {"schema": schema}, {"file": other}]
            footer = Footer(**{**vars(footer), **draw.choice(changes)})
            return replace(entry, footers=draw.choice([(footer,), (footer, footer), ()]))
        return replace(entry, **{path[0]: draw.choice([-1, 0, 1, entry.rows + 1, 2**62])})
    name, *place = path
    if kind == "bytes":
        return replace(entry, tables=changed_bytes(bytes(entry.tables), draw))
    table = changed_table(kept.tables[name], kind, tuple(place), draw)
    return replace(entry, tables=pack_tables({**kept.tables, name: table}, stream=True))


def changed_pack(kept: Kept, kind: str, path: Path_, draw: random.Random) -> bytes:
    """The bytes of the pack with a change of one field.

    Args:
        kept: the pack.
        kind: kind of the field.
        path: its place.
        draw: source of randomness.
    """
    if kind == "file":
        return changed_bytes(kept.data, draw)
    summary, unit, entry = kept.summary, kept.unit, kept.entry
    if kind == "summary":
        summary = draw.choice(["", "x", summary[::-1]])
    elif path == ("unit",):
        unit = draw.choice(["", "x", unit[::-1]])
    else:
        entry = changed_entry(kept, kind, path, draw)
    return encode_pack(summary, {unit: entry})


def outcome(
    kept: Kept, table: Path, data: bytes, warnings: list[str], *, right: bool
) -> tuple[str, str]:
    """The outcome of a fit with a pack, and what is wrong with it, or "".

    Args:
        kept: the pack.
        table: table to train on.
        data: bytes to put in place of the pack.
        warnings: the warnings of the fit.
        right: whether the name of the file is the checksum of the bytes, or as before.
    """
    store = kept.path.parents[2]
    for path in store.rglob(
        "*.arrow"
    ):  # also of other passes, which trials before may have changed
        path.unlink()
    kept.path.with_stem(pack_name(data) if right else kept.path.stem).write_bytes(data)
    warnings.clear()
    try:
        model = pc.fit(table, kept.spec, cache=store)
    except Exception as error:
        return "defect", f"raised: {error!r}"
    reused = model.training["cache"]["reused"]
    if model.id == kept.id:
        if reused:
            return "as before", ""
        return ("computed again, warned" if warnings else "computed again"), ""
    if not reused and (warnings or model.training.get("passes", 1) == 1):  # it is of the last pass
        return "defect", "another model without the pack"
    try:
        loaded = model_from_bundle(model.to_bundle())
        shares = loaded.predict_table(unusual_rows())
    except pc.ProbClassError as error:
        return "defect", f"a model that is refused: {error}"
    total = sum(shares[f"p_{name}"].to_numpy() for name in loaded.class_names)
    if not (abs(total - 1.0) < 1e-6).all():
        return "defect", "not distributions"
    return "other numbers", ""


class Warnings(logging.Handler):
    """Collects the warnings of the cache."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def trials() -> Iterator[Trial]:
    """The trials of this campaign."""
    log, handler = logging.getLogger("probclass_core"), Warnings()
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    with pc.trying(*PLUGINS), tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        folder = Path(name)
        table = folder / "rows.parquet"
        pq.write_table(rows(), table)
        all_kept: dict[str, Kept] = {}
        for number, (name, values) in enumerate(SPECS.items()):
            blocks = pc.ModelSpec("y", **values).blocks
            if not any(block.estimator_class.state_grows for block in blocks):
                for kept in keep(name, table, folder / str(number)):
                    all_kept[f"{name} {kept.path.parent.name[:4]}"] = kept
        fields = by_kind({name: fields_of(kept) for name, kept in all_kept.items()})

        def trial(seed: int) -> Result:
            draw = random.Random(seed)
            (kind,) = draw.choices(list(SHARES), list(SHARES.values()))
            name, path = draw.choice(fields[kind])
            kept = all_kept[name]
            field = shown(name, kind, path)
            right = kind != "file" and draw.random() < 0.8
            try:
                data = changed_pack(kept, kind, path, draw)
            except (StoreError, pa.ArrowException, LookupError, *CANNOT_BE_WRITTEN):
                return Result("no change", field, "cannot be written")
            what, defect = outcome(kept, table, data, handler.messages, right=right)
            if what == "other numbers" and not right:
                what, defect = "defect", "another model under the checksums of the original"
            return Result(f"{kind}, checksums {'right' if right else 'kept'}", field, what, defect)

        try:
            yield trial
        finally:
            log.removeHandler(handler)
            log.propagate = propagates
