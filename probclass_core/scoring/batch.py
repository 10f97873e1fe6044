"""A batch in, a scored batch out: passthrough columns, then what the model says of each row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from probclass_core.errors import SpecError
from probclass_core.model.decision import DecisionOption, rejection_reasons, take_classes
from probclass_core.model.model import Model

PosteriorFormat = Literal["columns", "list"]


class ScorerOptions(NamedTuple):
    """What a `Scorer` is told beside its model and the schema; see there."""

    passthrough: Sequence[str]
    posterior: PosteriorFormat
    decision: DecisionOption


class Scorer:
    """A model made ready to score batches of one schema.

    Scored columns: the passthrough ones; ``prediction``, null where the row is rejected;
    ``probability``, the posterior of what was chosen, rejected or not; with a rule that can reject,
    ``rejected``, the reason or null; with one that has costs, ``expected_cost`` of the choice; the
    posterior, as one ``p_<class>`` per class or as ``posterior`` (list<double> in class order);
    ``log_density``, log p(x) in nats, null where a block knows it only up to a term; ``model_id``.

    Args:
        model: what scores.
        schema: of the batches to come.
        passthrough: columns to keep, in order.
        posterior: ``"columns"`` or ``"list"``.
        decision: see `DecisionRule`.

    Raises:
        SpecError: a kept column has the name of a scored one, or is named twice; the decision rule
            does not fit the model.
        NotSupportedError: the rule asks for a density, and a block knows it only up to a term.
    """

    def __init__(
        self,
        model: Model,
        schema: pa.Schema,
        passthrough: Sequence[str],
        posterior: PosteriorFormat = "columns",
        decision: DecisionOption = "map",
    ) -> None:
        if posterior not in ("columns", "list"):
            raise SpecError(f"posterior must be 'columns' or 'list', got {posterior!r}.")
        for name in passthrough:
            if list(passthrough).count(name) > 1:
                raise SpecError(f"column {name!r} is to be kept twice; name it once.")
        self.model = model
        self.compiled_rule = model.compile_rule(decision)
        self.rule = self.compiled_rule.rule
        self.passthrough = list(passthrough)
        self.as_list = posterior == "list"
        kept = [schema.field(name) for name in passthrough]
        scored = [
            pa.field("prediction", model.classes.type),
            pa.field("probability", pa.float64()),
            *([pa.field("rejected", pa.string())] if self.rule.rejects else []),
            *([pa.field("expected_cost", pa.float64())] if self.rule.costs is not None else []),
            *self._posterior_fields(),
            pa.field("log_density", pa.float64()),
            pa.field("model_id", pa.string()),
        ]
        taken = {field.name for field in scored} & set(passthrough)
        if taken:
            raise SpecError(
                f"column {min(taken)!r} would stand twice in the scored table; rename it, or leave "
                "it out of the columns to keep."
            )
        metadata = {
            "probclass.model_id": model.id,
            "probclass.classes": json.dumps(model.class_names),
            "probclass.decision": json.dumps(self.rule.to_dict()),
        }
        self.schema = pa.schema([*kept, *scored], metadata=metadata)

    @property
    def options(self) -> ScorerOptions:
        """What, with a model and the schema of the batches, makes an equal scorer."""
        return ScorerOptions(self.passthrough, "list" if self.as_list else "columns", self.rule)

    def _posterior_fields(self) -> list[pa.Field]:
        if self.as_list:
            return [pa.field("posterior", pa.list_(pa.float64()))]
        return [pa.field(f"p_{name}", pa.float64()) for name in self.model.class_names]

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The scored batch, row by row; the batch has the passthrough columns and the features."""
        posterior, decisions = self.model.decide(batch, self.compiled_rule)
        probability = posterior.probability
        columns: list[pa.Array] = [batch.column(name) for name in self.passthrough]
        columns.append(take_classes(self.model.classes, decisions.prediction))
        columns.append(pa.array(posterior.probability_of(decisions.choice)))
        if self.rule.rejects:
            columns.append(rejection_reasons(decisions.rejected))
        if decisions.expected_cost is not None:
            columns.append(pa.array(decisions.expected_cost))
        if self.as_list:
            width = probability.shape[1]
            offsets = np.arange(0, probability.size + 1, width, dtype=np.int32)
            columns.append(pa.ListArray.from_arrays(offsets, probability.ravel()))
        else:
            columns.extend(pa.array(column) for column in probability.T)
        if self.model.normalized:
            columns.append(pa.array(posterior.log_density))
        else:
            columns.append(pa.nulls(batch.num_rows, pa.float64()))
        columns.append(pa.repeat(self.model.id, batch.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
