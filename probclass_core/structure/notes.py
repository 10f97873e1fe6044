"""What was decided about blocks, as sentences for `ModelSpec.notes`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from probclass_core.estimation.kinds.sample import COUNT, SAMPLE_ROWS, equal_rows_are_copies
from probclass_core.spec.model_spec import Block
from probclass_core.structure.columns import ENOUGH_ROWS, listed
from probclass_core.structure.profile import Profile

COMPARED_ROWS = 16_384
"""Rows of the sample on which an earlier spec is compared with a new one: half of the time."""

_GIVEAWAY = 0.02
"""Share of the class prior's log loss below which a column alone is suspicious."""


def notes_on_table(profile: Profile) -> list[str]:
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


def notes_on_blocks(
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
    if sample.num_rows in (SAMPLE_ROWS, COMPARED_ROWS):
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
    if nulls := [column.name for column in used if column.null_level]:
        yield f"A null is a level of its own in {listed(nulls)}."
    unused = [column.name for column in profile.columns.used if column.name not in read]
    if unused:
        yield f"Columns left out because they do not help the others: {listed(unused)}."
