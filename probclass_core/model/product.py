"""The product of blocks: the prior and the parameters that statistics give."""

from __future__ import annotations

import pyarrow as pa

from probclass_core.errors import DataError
from probclass_core.estimation.statistics import Statistics, bind
from probclass_core.estimation.tidy import notes_of
from probclass_core.model.model import Model, prior_table


def product(statistics: Statistics) -> Model:
    """The prior and the parameters of statistics of labeled rows, all that a product of blocks is.

    Raises:
        DataError, SpecError: as `finalize`.
    """
    classes = statistics.classes["class"].combine_chunks()
    notes = _notes_on_rows(statistics, classes)
    estimators = bind(statistics.spec, statistics.features, statistics.row_weight)
    parameters = {
        name: estimator.finalize(statistics.blocks[name], classes)
        for name, estimator in estimators.items()
    }
    for table in parameters.values():
        notes += notes_of(table).get("scarce", [])
    notes = list(dict.fromkeys(notes))  # blocks of the same columns say the same
    return Model(
        spec=statistics.spec,
        features=statistics.features,
        priors=prior_table(classes, statistics.classes["count"].to_numpy(), statistics.spec.prior),
        parameters=parameters,
        training={
            "rows": statistics.rows,
            "null_labels": statistics.null_labels,
            "columns": statistics.column_values,
            **({"notes": notes} if notes else {}),
        },
    )


def _notes_on_rows(statistics: Statistics, classes: pa.Array) -> list[str]:
    """Sentences about the labels and weights of the rows.

    Raises:
        DataError: if there is only one class, and the spec's ``on_scarce`` is ``"error"``.
    """
    notes, spec = [], statistics.spec
    if len(classes) == 1 and spec.label is not None:
        found = f"label {spec.label!r} has one class only, {classes[0].as_py()!r}"
        without_weight = statistics.rows - statistics.null_labels - statistics.labeled_rows
        if without_weight:
            found += (
                f", in rows with a weight {spec.weight!r} above 0 (it is 0 in {without_weight})"
            )
        if spec.on_scarce == "error":
            raise DataError(f"{found}; a classifier needs rows of at least two.")
        notes.append(f"{found}: the model predicts it for every row.")
    if statistics.row_weight > 1.0:
        notes.append(
            f"weight {spec.weight!r} averages {statistics.row_weight:.6g} per row, too much for a "
            "number of rows: rules that count rows, such as the cuts of discretized, count every "
            "row once; pseudo-counts have little effect until the weights average 1."
        )
    return notes
