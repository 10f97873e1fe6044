"""The options of scoring, for Python, the command line, the project file and Airflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_type_hints

from probclass_core.analysis.distributions.watch import Watch, WatchOption
from probclass_core.arguments import check_argument, checked_number, from_fields
from probclass_core.errors import SpecError
from probclass_core.io.selection import MissingColumns
from probclass_core.model.decision import DecisionOption, DecisionRule

PosteriorFormat = Literal["columns", "list"]

Overwrite = Literal["partition", "append", "never"]
"""What happens to rows that are already in the sink: replace them, add to them, or refuse."""

SchemaPolicy = Literal["evolve", "same"]
"""Whether a scored table gains passthrough columns that it lacks, and may have others that are then
null, or must have the same columns."""


@dataclass(frozen=True)
class RowOptions:
    """What scoring writes for each row.

    Attributes:
        columns: passthrough column of the scored table, or several, in order; by default all except
            an index without a name that pandas wrote, and none in SQL.
        posterior: ``"columns"`` for one column per class, ``"list"`` for one list column, in
            class order.
        decision: decision rule, or what `DecisionRule.parse` reads as one.
        prior: share of each class to have the posteriors under, instead of those of the training,
            such as those that `health` estimates. It changes no log p(x).
        rarity: write ``rarity``, the share of the known rows that are at least as improbable as the
            row, see `Model.rarity`; a model without a label does so anyway.
        rare: write ``rarity``, and ``rare``, whether it is at most this share, such as 0.001.
        contributions: whether to write what each column adds to the log odds of the class against
            the runner-up, and to −log p(x): ``runner_up``, and a column ``contribution_<name>``
            and ``surprise_<name>`` for each term; see `BatchScorer`. The table gains these columns
            if it lacks them, and those that only other versions have are null.

    Raises:
        SpecError: if a value is not one of its choices.
    """

    called: ClassVar[str] = "a scored row"

    columns: str | Sequence[str] | None = None
    posterior: PosteriorFormat = "columns"
    decision: DecisionOption = "map"
    prior: Mapping[str, float] | None = None
    rarity: bool = False
    rare: float | None = None
    contributions: bool = False

    def __post_init__(self) -> None:
        parsed = {"decision": DecisionRule.parse, "prior": _parse_prior, "watch": Watch.parse}
        kinds = get_type_hints(type(self))
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in parsed:
                object.__setattr__(self, field.name, parsed[field.name](value))
            else:
                check_argument(field.name, value, kinds[field.name])
        if self.rare is not None:
            checked_number("rare", self.rare, 0.0, 1.0)
        if self.columns is not None:
            names = [self.columns] if isinstance(self.columns, str) else self.columns
            object.__setattr__(self, "columns", tuple(names))

    @classmethod
    def parse(cls, options: Self | Mapping[str, Any] | None) -> Self:
        """Options from any form that ``options=`` takes: a mapping has the fields as its keys.

        Raises:
            SpecError: if a key is unknown, or a value is not one of its choices.
        """
        return cls() if options is None else from_fields(cls, options, cls.called)


@dataclass(frozen=True)
class ScoringOptions(RowOptions):
    """What scoring writes for each row, what it checks, and how it changes the sink.

    Attributes:
        columns, posterior, decision, prior, rarity, rare, contributions: what is written for each
            row; see `RowOptions`.
        overwrite: ``"partition"`` replaces the partition; ``"append"`` adds to it, once for each
            model, input and configuration; ``"never"`` refuses a partition that exists, unless it
            was made from the same, before anything is written.
        watch: what to check of each partition before its commit; see `Watch`. True warns by the
            default thresholds, a mapping is that of `Watch.from_dict`. Health and verdicts are
            recorded with the commit, whose id does not depend on them; False records nothing.
        missing_columns: what to do about a column of the model that no file has: ``"error"``, or
            read it as null, with a warning (``"warn"``) or without (``"allow"``). A column that
            only some files have is null in the others, with a warning unless ``"allow"``.
        schema: what to do if the sink lacks a passthrough column: ``"evolve"`` adds it, null in the
            partitions that are not scored now, and leaves a column of the sink that the rows lack
            null, with a warning; ``"same"`` is an error for both. No column is dropped, and none
            gets another type.

    Raises:
        SpecError: if a value is not one of its choices.
    """

    called = "scoring"

    overwrite: Overwrite = "partition"
    watch: WatchOption = True
    missing_columns: MissingColumns = "error"
    schema: SchemaPolicy = "evolve"


RowOption: TypeAlias = RowOptions | Mapping[str, Any] | None
"""What is written for each row, or a mapping of the fields."""

ScoringOption: TypeAlias = ScoringOptions | Mapping[str, Any] | None
"""Scoring options, or a mapping of their names to values."""


def _parse_prior(prior: Mapping[str, Any] | None) -> Mapping[str, float] | None:
    """A prior whose shares are numbers; a template renders them as text.

    Raises:
        SpecError: if it is something else.
    """
    if prior is None:
        return None
    if not isinstance(prior, Mapping):
        raise SpecError(f"prior must be a table of shares by class, got {prior!r}.")
    return {
        name: checked_number(f"the share of {name!r} in a prior", share)
        for name, share in prior.items()
    }
