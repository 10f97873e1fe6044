"""The blocks of a spec: the fewest candidates that predict as well as all, or an earlier spec's.

Blocks are weighed against each other on the sample, each row by blocks that did not see it
(`model.weight_fit`, `model.fewest_blocks`); training fits their weights on all that it needs. What
was decided is said in sentences, the notes of the spec.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from probclass_core.errors import DataError, SpecError
from probclass_core.estimation.kinds.sample import COUNT, HASH, SAMPLE_ROWS, equal_rows_are_copies
from probclass_core.estimation.kinds.summary import MAX_CLASSES
from probclass_core.estimation.statistics import Statistics, bind, summarize_batches
from probclass_core.model.fewest_blocks import fewest_blocks, weight_problem_of_sample
from probclass_core.spec.model_spec import Block, ModelSpec
from probclass_core.structure.candidates import Candidates
from probclass_core.structure.columns import ENOUGH_ROWS, Columns, Names, listed
from probclass_core.structure.density import network, unlabeled_blocks
from probclass_core.structure.parts import possible_parts
from probclass_core.structure.profile import Profile

log = logging.getLogger(__name__)

SpecOf = Callable[..., ModelSpec]
"""The spec of blocks and notes, with the label, prior and other arguments of the caller."""

_AS_GOOD = 1.01
"""Largest ratio of the log losses of an earlier spec and a new one at which the former is kept."""

_COMPARED_ROWS = 16_384
"""Rows of the sample on which an earlier spec is compared with a new one: half of the time."""

_GIVEAWAY = 0.02
"""Share of the class prior's log loss below which a column alone is suspicious."""


def chosen_spec(profile: Profile, spec_of: SpecOf, like: ModelSpec | None) -> ModelSpec:
    """The spec of the blocks that help, or of those of an earlier spec if they are as good."""
    like, lost = readable(like, profile.columns)
    if profile.statistics.spec.label is None:
        notes = [*profile.columns.decisions, *lost]
        if like is not None:
            return as_before(spec_of, like, notes)
        blocks, more = unlabeled_blocks(profile)
        return spec_of(blocks=blocks, notes=(*notes, *more))
    if like is None:
        found, _ = _best(profile, spec_of)
        return replace(found, notes=(*found.notes, *lost))
    compared = replace(profile, sample=profile.sample.slice(0, _COMPARED_ROWS))
    found, log_loss = _best(compared, spec_of)
    is_as_good, note = _compare(compared, like, log_loss)
    if is_as_good:
        return as_before(spec_of, like, _notes_on_table(profile), note)
    return replace(found, notes=(*found.notes, note))


def as_before(
    spec_of: SpecOf,
    like: ModelSpec,
    notes: Sequence[str],
    note: str = "The blocks are those of like.",
) -> ModelSpec:
    """The spec of the blocks of an earlier one."""
    return spec_of(blocks=like.blocks, density=like.density, notes=(*notes, note))


def readable(like: ModelSpec | None, columns: Columns) -> tuple[ModelSpec | None, list[str]]:
    """An earlier spec; None, with a note, if it reads what is not among the columns to model."""
    used = {column.name for column in columns.used}
    used |= possible_parts(columns)
    lost = [] if like is None else [name for name in like.features if name not in used]
    if lost:
        return None, [f"The blocks are not those of like, which reads {listed(lost)}."]
    return like, []


def _best(profile: Profile, spec_of: SpecOf) -> tuple[ModelSpec, float]:
    """The spec of the fewest candidates that predict as well as all, and their log loss."""
    names = Names()
    candidates = Candidates(profile, names).blocks()
    statistics = _summarize(profile, [block for kind in candidates.values() for block in kind])
    joint = [*candidates["normals"], *candidates["neighbors"]]
    statistics, failures = _without_failures(spec_of, statistics, joint)
    costly = candidates["neighbors"] if profile.effort != "best" else []
    kept, log_loss = fewest_blocks(statistics, [str(block.name) for block in costly])
    chosen = [block for block in statistics.spec.blocks if block.name in kept]
    notes = _notes_on_table(profile)
    notes += _notes_on_blocks(profile, candidates, statistics.spec.blocks, chosen)
    notes += failures
    if not chosen:
        chosen = candidates["columns"][:1]
        notes.append(
            "No column tells the classes apart on rows that a model did not see: it predicts the "
            "class prior."
        )
        if profile.statistics.rows >= ENOUGH_ROWS:
            log.warning("%s", " ".join([*profile.columns.decisions, notes[-1]]))
    read = {column for block in chosen for column in block.inputs}
    used = [column for column in profile.columns.used if column.name in read]
    density = network(profile, used, names, ", density")
    of_density = [block.name for block in density]
    return spec_of(blocks=[*chosen, *density], density=of_density, notes=tuple(notes)), log_loss


def _without_failures(
    spec_of: SpecOf, statistics: Statistics, joint: Sequence[Block]
) -> tuple[Statistics, list[str]]:
    """Statistics without joint densities that rows do not suffice for, and notes on these."""
    classes = statistics.classes["class"].combine_chunks()
    estimators = bind(spec_of(blocks=joint), statistics.features) if joint else {}
    failures = {}
    for name, estimator in estimators.items():
        try:
            estimator.finalize(statistics.blocks[name], classes)
        except DataError as error:
            failures[name] = f"The block {name!r} is left out: {error}"
    blocks = tuple(block for block in statistics.spec.blocks if block.name not in failures)
    return statistics.of_spec(replace(statistics.spec, blocks=blocks)), [*failures.values()]


def _compare(profile: Profile, like: ModelSpec, log_loss: float) -> tuple[bool, str]:
    """Whether the blocks of an earlier spec are as good as those found now, and a note on it.

    Args:
        profile: what is known of the table.
        like: the earlier spec.
        log_loss: log loss of the blocks found now, on rows that they did not see.
    """
    try:
        problem = weight_problem_of_sample(_summarize(profile, like.pool))
    except (DataError, SpecError) as error:
        return False, f"The blocks are not those of like: {error}"
    before = problem.log_loss(*problem.solve())
    losses = f"{before:.4g} in place of {log_loss:.4g} for blocks chosen anew"
    if before <= _AS_GOOD * log_loss:
        return True, f"The blocks are those of like; their log loss is {losses}."
    return False, f"The blocks are not those of like, whose log loss would be {losses}."


def _summarize(profile: Profile, blocks: Sequence[Block]) -> Statistics:
    """Statistics of the sample under other blocks; a row counts as often as it occurs."""
    spec, rows = profile.statistics.spec, profile.sample.drop_columns(HASH)
    candidate = ModelSpec(
        spec.label,
        blocks,
        spec.prior,
        COUNT,
        block_weights="fit",
        groups=spec.groups,
        max_classes=spec.max_classes or MAX_CLASSES,  # a sample has fewer rows of each
    )
    statistics = summarize_batches(candidate, rows.schema, rows.to_batches())
    # Rules that count rows, such as those of cuts, count all that a row of the sample is for.
    classes = statistics.classes
    counts = np.rint(classes["count"].to_numpy() / profile.statistics.row_weight).clip(1)
    place = classes.schema.get_field_index("rows")
    classes = classes.set_column(place, "rows", pa.array(counts.astype(np.int64)))
    return replace(statistics, tables={**statistics.tables, "classes": classes})


def _notes_on_table(profile: Profile) -> list[str]:
    """What became of the columns, and which of them each give the class nearly without error."""
    columns, label = profile.columns.counted, profile.statistics.spec.label
    most = _GIVEAWAY * profile.levels([]).log_loss()
    losses = zip(columns, profile.losses(columns), strict=True)
    names = [column.name for column, loss in losses if loss < most]
    notes = profile.columns.decisions
    if names and profile.statistics.rows >= ENOUGH_ROWS:
        gives, them = ("each give", "them") if len(names) > 1 else ("alone gives", "it")
        notes.append(
            f"{listed(names)} {gives} {label!r} nearly without error: exclude {them} if "
            f"{label!r} is made from {them}, or is known before {them}."
        )
    return notes


def _notes_on_blocks(
    profile: Profile,
    candidates: Mapping[str, Sequence[Block]],
    weighed: Sequence[Block],
    chosen: Sequence[Block],
) -> Iterator[str]:
    """How blocks were chosen, and which.

    Args:
        profile: what is known of the table.
        candidates: all blocks, by what they are of.
        weighed: those that rows sufficed for.
        chosen: those of the spec.
    """
    statistics, sample = profile.statistics, profile.sample
    if alike := statistics.spec.group_columns:
        yield (
            f"Rows with the same {listed(alike)} are alike: blocks were chosen, and are "
            "weighed, by what they say of rows of other groups than they were trained on."
        )
    if sample.num_rows in (SAMPLE_ROWS, _COMPARED_ROWS):
        yield (
            f"The blocks were chosen on a sample of {sample.num_rows:,} of the "
            f"{statistics.rows:,} rows."
        )
    total = int(sample[COUNT].to_numpy().sum())
    if statistics.spec.weight is None and equal_rows_are_copies(sample):
        yield (
            f"{total - sample.num_rows:,} of {total:,} rows are exact copies of others: blocks "
            "were chosen, and are weighed, by what they say of a row without its copies."
        )
    kept = {
        kind: [block for block in blocks if block in chosen] for kind, blocks in candidates.items()
    }
    if pairs := candidates["pairs"]:
        yield (
            f"Pairs of columns that are blocks of their own: {len(kept['pairs'])} of the "
            f"{len(pairs)} that depend on each other most within the classes."
        )
    if profile.has_times_without_groups and profile.effort != "fast":
        yield (
            "Pairs of numbers in finer bins were not tried: rows near in time are alike, and "
            "no groups tell which are; name them, as in groups='day'."
        )
    if fine := candidates["fine pairs"]:
        yield (
            f"Pairs of numbers in finer bins than each has alone: {len(kept['fine pairs'])} blocks "
            f"of the {len(fine)} that gain most."
        )
    if acting := [str(block.name) for block in kept["groups"]]:
        yield f"Three columns and more act together in the blocks {listed(acting)}."
    elif candidates["groups"]:
        yield "No three columns act together so that a block of them helps the others."
    for block in (*candidates["normals"], *candidates["neighbors"]):
        if block in chosen:
            yield f"The block {block.name!r} models {len(block.columns)} numbers jointly."
        elif block in weighed:
            yield f"The block {block.name!r} is left out: it does not help the others enough."
    read = {column for block in chosen for column in block.inputs}
    used = [column for column in profile.columns.used if column.name in read]
    if integers := [column.name for column in used if column.is_category_of_numbers]:
        yield f"Integers taken as categories: {listed(integers)}."
    if telling := [column.name for column in used if column.telling_values]:
        yield f"Integers whose values tell more of the class than their bins: {listed(telling)}."
    if nulls := [column.name for column in used if column.null_level]:
        yield f"A null is a level of its own in {listed(nulls)}."
    unused = [column.name for column in profile.columns.used if column.name not in read]
    if unused:
        yield f"Columns left out because they do not help the others: {listed(unused)}."
