"""What plugins register: one frozen descriptor for an estimator, a table format or an engine.

The types they speak of belong to other packages and are named for type checkers only, so that
every package can look up plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from probclass_core.estimation.contract import LikelihoodEstimator
    from probclass_core.execution.engine import Engine
    from probclass_core.io.references import Leftover, TableRef
    from probclass_core.io.table import Sink, Table

PROBCLASS_API = 1
"""Version of this contract and of the hooks; a plugin names the one it was written for."""

EstimatorFactory: TypeAlias = "Callable[[pa.Schema, Mapping[str, Any]], LikelihoodEstimator]"


@dataclass(frozen=True)
class Traits:
    """What the engine and the conformance kit may assume of an estimator.

    Attributes:
        state_grows: the statistics grow with the rows (k nearest neighbors keeps them all).
        factorizes: the log-likelihood is a sum over features.
        has_evidence: ``log_evidence`` is offered.
        passes: how often a fit may read the rows; see `LikelihoodEstimator.refine`. After so many,
            what is there is finalized.
    """

    state_grows: bool = False
    factorizes: bool = False
    has_evidence: bool = False
    passes: int = 1


@dataclass(frozen=True)
class EstimatorPlugin:
    """What a plugin registers: an estimator's name and how to make one.

    Attributes:
        name: as it stands in a model spec.
        factory: ``factory(features, options)`` gives the estimator; usually its class.
        summary: one line for ``probclass estimators``.
        parameters_version: raised when the parameters table changes shape or meaning.
        traits: see `Traits`.
        statistics_version: raised when ``summarize`` gives other statistics of the same rows;
            statistics kept by an earlier version are then read no more.
    """

    name: str
    factory: EstimatorFactory
    summary: str
    parameters_version: int = 1
    traits: Traits = Traits()
    statistics_version: int = 1


@dataclass(frozen=True)
class TableFormat:
    """What a plugin registers: a format of tables.

    Attributes:
        name: as in `TableRef.format` and before the ``+`` of a URI.
        summary: one line for ``probclass table formats``.
        recognizes: whether a place without a named format holds such a table; cheap, and false
            where it does not know.
        open: the table at a place.
        sink: where a partition of the table is to stand; none for a format that is only read.
        leftovers: what killed writers left of a table, and nothing that any version of it needs,
            whoever wrote it; none for a format that leaves nothing, or does not know.
    """

    name: str
    summary: str
    recognizes: Callable[[TableRef], bool]
    open: Callable[[TableRef], Table]
    sink: Callable[[TableRef, Mapping[str, Any]], Sink] | None = None
    leftovers: Callable[[TableRef], Sequence[Leftover]] | None = None


@dataclass(frozen=True)
class EnginePlugin:
    """What a plugin registers: a kind of workers.

    Attributes:
        name: as in ``fit(…, engine=name)``.
        summary: one line on who the workers are.
        recognizes: whether an object given as ``engine`` is such an engine's, as a session or a
            client is; cheap, and false where it does not know.
        open: workers for as long as the context lasts, given that object, or none where the engine
            was asked for by name; and the number of workers, or none where that is the engine's
            to say.
    """

    name: str
    summary: str
    recognizes: Callable[[object], bool]
    open: Callable[[Any, int | None], AbstractContextManager[Engine]]
