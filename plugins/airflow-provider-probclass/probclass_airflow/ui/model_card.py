"""The card of one version: its state, and the report of the model with links to its plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from probclass_airflow.ui.comparison import reference_of
from probclass_airflow.ui.rows import CHAMPION, partition_rows
from probclass_airflow.ui.runs import run_of
from probclass_airflow.ui.status import ModelRow, Status
from probclass_airflow.ui.stores import ShownStore, version_of
from probclass_core.display import minute
from probclass_core.report import (
    Html,
    Measured,
    Section,
    headline,
    image,
    joined,
    parameter_tables,
    sections,
)
from probclass_core.report.html import as_text, finite, number

if TYPE_CHECKING:
    from probclass_core.store.records import ModelVersion
    from probclass_core.store.results import EvaluationRecord


@dataclass(frozen=True)
class ModelCard:
    """The card.

    Attributes:
        version: the version.
        status: whether it is in force, and what is wrong.
        run: query of the link to the task that trained it, or None.
        headline: figures that matter.
        sections: sections of its report, and its parameters.
        evaluation: the evaluation in the report, or None.
        evaluated: query of the link to the task that recorded the evaluation, or None.
        reference: content id of the version to compare it with.
    """

    version: ModelVersion
    status: Status
    run: Mapping[str, str] | None
    headline: Html
    sections: list[Section]
    evaluation: EvaluationRecord | None
    evaluated: Mapping[str, str] | None
    reference: str


def model_card(
    shown: ShownStore, row: ModelRow, content_id: str, root: str, evaluation_id: str | None
) -> ModelCard:
    """The card of a version; only its plots need the model's estimators.

    Args:
        shown: the store.
        row: the model.
        content_id: full content id of the version.
        root: address of the pages.
        evaluation_id: id of its evaluation to show; by default the newest.

    Raises:
        NotFound: if there is no such version.
        StoreError: if the version is damaged.
    """
    records = row.records
    version = version_of(records, content_id)
    bundle = shown.store.read_bundle(version.ref)
    own = [record.id for record in records.evaluations if record.version == version.id]
    chosen = evaluation_id if evaluation_id in own else own[-1] if own else None
    evaluation = None if chosen is None else shown.store.evaluation(version, chosen)
    measured = None if evaluation is None else Measured(evaluation.result, evaluation.on)
    address = f"{root}/stores/{shown.key}/{quote(row.name)}/{version.id}"
    parameters = Section("parameters", "Parameters", parameter_tables(bundle))
    return ModelCard(
        version=version,
        status=_status(row, version),
        run=run_of(bundle.provenance),
        headline=headline(bundle, measured, _operation(row, version)),
        sections=[
            *sections(bundle, picture=_LinkedPictures(address, chosen), measured=measured),
            parameters,
        ],
        evaluation=evaluation,
        evaluated=None if evaluation is None else run_of(evaluation.provenance),
        reference=reference_of(records, version),
    )


def _status(row: ModelRow, version: ModelVersion) -> Status:
    """The state of the model if the version is in force, else why it is not."""
    if row.champion is None or row.champion.id == version.id:
        return row.status
    refused = [
        entry.reason
        for entry in row.records.promotions
        if (entry.action, entry.alias, entry.id) == ("refused", CHAMPION, version.id)
    ]
    why = f" This one was refused: {refused[-1]}." if refused else ""
    return Status(f"The champion is another version, {row.champion.id[:8]}.{why}")


def _operation(row: ModelRow, version: ModelVersion) -> Iterator[tuple[str, str, str]]:
    """Tiles of a version in operation: since when, how it was judged, what it scored last."""
    if row.champion is not None and row.champion.id == version.id:
        yield "In force since", minute(row.champion.promoted) or "–", ""
    judged = [entry.metrics for entry in row.records.promotions if entry.id == version.id]
    found: Mapping[str, Any] = next((one for one in reversed(judged) if "gain" in one), {})
    if (gain := finite(found.get("gain"))) is not None:
        error = finite(found.get("standard_error"))
        values = [number(found.get(f"{side}_value")) for side in ("challenger", "champion")]
        aside = f"{as_text(found.get('metric'))} {' against '.join(values)}".replace("_", " ")
        aside += "" if error is None else f", ± {number(error)}"
        yield "Gain on the champion before", number(gain), aside
    scored = [one for one in row.records.scorings if one.version == version.id and one.partitions]
    if scored:
        last = partition_rows(scored[-1:])[-1]
        titles = ", ".join(warned.title for warned in last.warnings[:3])
        health = titles or ("no warnings" if last.health else "not watched")
        yield "Scored last", last.name, health


@dataclass(frozen=True)
class _LinkedPictures:
    """Links the pictures of a report, in light and in dark colors; see `report.Picture`.

    Attributes:
        address: address of the version.
        evaluation: id of the evaluation in the report, or None.
    """

    address: str
    evaluation: str | None

    def __call__(self, column: str | None, alt: str) -> Html:
        kind, query = "column", {"column": column}
        if column is None:
            kind, query = f"reliability/{self.evaluation}", {}
        return joined(
            image(
                f"{self.address}/{kind}.svg?{urlencode({**query, 'theme': theme})}",
                alt,
                f"on-{theme}",
            )
            for theme in ("light", "dark")
        )
