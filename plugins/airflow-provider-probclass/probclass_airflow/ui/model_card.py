"""The card of one version: the report of the model with links to what the store knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from probclass_airflow.ui.comparison import DriftSection, drift_section, reference_of
from probclass_airflow.ui.formatting import as_text, words
from probclass_airflow.ui.parameters import Grid, grids
from probclass_airflow.ui.rows import run_of
from probclass_airflow.ui.stores import NotFound, ShownStore
from probclass_core.report import (
    Html,
    Measured,
    Section,
    headline,
    image,
    joined,
    ordered_blocks,
    sections,
)

if TYPE_CHECKING:
    from probclass_core.store.evaluations import EvaluationRecord
    from probclass_core.store.references import Alias, ModelVersion

_MAX_BLOCKS = 12
"""Largest number of blocks of a model with block weights whose parameters are shown."""


@dataclass(frozen=True)
class BlockSection:
    """A block: its options and its parameters."""

    name: str
    estimator: str
    columns: list[str]
    options: list[tuple[str, str]]
    grids: list[Grid]


@dataclass(frozen=True)
class ModelCard:
    """The card.

    Attributes:
        version: the version.
        aliases: its aliases.
        run: query of the link to the task that trained it, or None.
        headline: figures that matter, of its report.
        sections: sections of its report.
        evaluation: the evaluation in the report, or None.
        evaluated: query of the link to the task that recorded the evaluation, or None.
        older: number of evaluations that are older.
        blocks: parameters of its most important blocks.
        more_blocks: number of the others.
        drift: what changed since another version.
        choices: the other versions.
    """

    version: ModelVersion
    aliases: list[Alias]
    run: Mapping[str, str] | None
    headline: Html
    sections: list[Section]
    evaluation: EvaluationRecord | None
    evaluated: Mapping[str, str] | None
    older: int
    blocks: list[BlockSection]
    more_blocks: int
    drift: DriftSection
    choices: list[ModelVersion]


def model_card(
    shown: ShownStore, name: str, content_id: str, root: str, against: str | None, page: int = 1
) -> ModelCard:
    """The card of a version; only its plots and its drift need the model's estimators.

    Args:
        shown: the store.
        name: name of the model.
        content_id: full content id of the version.
        root: address of the pages.
        against: content id of the version to compare with; by default the champion, or the one
            before it.
        page: which of its evaluations to show, from 1, newest first.

    Raises:
        NotFound: if there is no such model or version.
        StoreError: if the version is damaged.
    """
    records = shown.records(name)
    version = shown.version(name, content_id)
    bundle = shown.store.read_bundle(version.ref)
    classes = [
        row["class"]
        for row in sorted(bundle.tables["priors"].to_pylist(), key=lambda row: -row["count"])
    ]
    own = [record for record in records.evaluations[::-1] if record.version == version.id]
    evaluation = shown.store.evaluation(version, own[page - 1].id) if own[page - 1 :] else None
    reference, role = reference_of(records, version)
    if against is not None:
        reference, role = against, "the version chosen"
    known = [choice for choice in records.versions if choice.id == reference]
    if against is not None and not (known and against != version.id):
        raise NotFound(f"Model {name!r} has no other version {against[:12]!r}.")
    other = known[0] if known else None
    measured = None if evaluation is None else Measured(evaluation.result, evaluation.on)
    address = f"{root}/stores/{shown.key}/{quote(name)}/{version.id}"
    pictures = _LinkedPictures(address, evaluation)
    blocks = ordered_blocks(bundle)
    most = _MAX_BLOCKS if "block_weights" in bundle.tables else len(blocks)
    return ModelCard(
        version=version,
        aliases=[alias for alias in records.aliases.values() if alias.id == version.id],
        run=run_of(bundle.provenance),
        headline=headline(bundle, measured),
        sections=sections(bundle, picture=pictures, measured=measured),
        evaluation=evaluation,
        evaluated=None if evaluation is None else run_of(evaluation.provenance),
        older=max(0, len(own) - page),
        blocks=[_block(block, bundle, classes) for block in blocks[:most]],
        more_blocks=len(blocks[most:]),
        drift=drift_section(shown, version, other, role),
        choices=[choice for choice in records.versions[::-1] if choice.id != version.id],
    )


@dataclass(frozen=True)
class _LinkedPictures:
    """Links the pictures of a report, in light and in dark colors; see `report.Picture`.

    Attributes:
        address: address of the version.
        evaluation: the evaluation in the report, or None.
    """

    address: str
    evaluation: EvaluationRecord | None

    def __call__(self, column: str | None, alt: str) -> Html:
        kind, query = "column", {"column": column}
        if column is None:
            assert self.evaluation is not None  # only its section has the picture
            kind, query = f"reliability/{self.evaluation.id}", {}
        return joined(
            image(
                f"{self.address}/{kind}.svg?{urlencode({**query, 'theme': theme})}",
                alt,
                f"on-{theme}",
            )
            for theme in ("light", "dark")
        )


def _block(block: Mapping[str, Any], bundle: Any, classes: Sequence[Any]) -> BlockSection:
    return BlockSection(
        name=block["name"],
        estimator=block["estimator"],
        columns=list(block["columns"]),
        options=[
            (words(key), as_text(value))
            for key, value in block.items()
            if key not in ("name", "estimator", "columns")
        ],
        grids=grids(block, bundle.tables[block["name"]], classes),
    )
