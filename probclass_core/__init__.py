"""probclass: Bayes classifiers from tables, and scored tables from Bayes classifiers.

The public face. To read the code as a story, follow the road::

    errors          what is refused, and how a message says so
    column_types    what values a column's type stands for
    spec            what a model is to be: a prior times blocks of columns
    tables/         plan fragments of a table, read record batches
    arrays          the only door from Arrow to NumPy
    terms           its sibling for sparse counts, such as the words of a text
    row_blocks      a batch of numbers in blocks that fit the processor's cache
    threads         map over the threads of this process, in order
    estimator       the contract of a likelihood estimator: four verbs and their laws
    moments         count, mean, scatter, and the only merge of moments
    histogram       counts of a numeric column on a grid, and their only merge
    evidence        how probable data are, parameters integrated out, in closed form
    estimators/     the families, one file each
    table_format    the address of a table, and what a plugin registers for a format
    footer          what a plan asks the footer of a Parquet file, or knows from before
    engine          who runs the map, and what a plugin registers for an engine
    storage         a path or URI as a file system; what to do when it does not answer: retries
    hookspecs, plugins   how estimators, formats and engines are found, built-in or not
    statistics      what training knows of some rows: a monoid
    passes          another look at the rows, where an estimator asks for one
    model           prior + parameters -> log-likelihoods
    posterior       the only normalisation
    decision        which class is chosen: costs, rejection, maximum likelihood
    calibration, density_quantiles   what is measured once a model is fitted
    reliability     whether probabilities mean what they say
    scoring, evaluation  a batch scored, a batch measured
    explanation, ledger  why a row has its class, entry by entry
    comparison      which of several models the data support
    drift/          what changed from one model to another, without its rows
    bayes           Bayes' rule on plain tables
    store/, bundle  models as verified Arrow tables, versions, aliases; kept statistics
    engines/        threads, processes, executors, Spark
    sharding        what each of many tasks summarises
    scored_table    one partition of a scored table, from its plan to its commit
    work            what an engine's workers do with a fragment or a partition
    pipeline        fit, score, evaluate: the road end to end
    held_out        calibrate, with_density_quantiles
    cli/, plots/    the same for hands and eyes
    sklearn/        the same as a classifier of arrays and DataFrames
    demo/           five years of Beijing's air, for a first look
    authoring       what the author of an estimator needs beside the contract
    testing/        the laws of the contract as tests, for authors of estimators
"""

import importlib
import sys
import types
from typing import Any

_HOMES = {
    "bayes": ("BayesTable", "bayes_rule"),
    "comparison": ("Comparison", "ModelOdds", "compare"),
    "decision": ("DecisionRule",),
    "drift": ("Drift", "drift"),
    "engine": ("Engine", "EnginePlugin"),
    "errors": (
        "DataError",
        "NotSupportedError",
        "PluginError",
        "ProbClassError",
        "SpecError",
        "StoreError",
        "TableError",
    ),
    "estimator": (
        "POINT_MASS_WIDTH",
        "PROBCLASS_API",
        "EstimatorPlugin",
        "Likelihood",
        "LikelihoodEstimator",
        "Traits",
    ),
    "evaluation": ("Evaluation",),
    "explanation": ("Explanation", "explain"),
    "held_out": ("calibrate", "with_density_quantiles"),
    "hookspecs": ("hookimpl",),
    "model": ("Model", "finalize"),
    "pipeline": ("ScoreReport", "evaluate", "fit", "score", "summarize"),
    "plugins": ("estimators", "trying"),
    "sharding": ("Shard", "ShardPlan", "plan_shards"),
    "spec": ("Block", "ModelSpec"),
    "passes": ("refine",),
    "statistics": ("Statistics", "merge"),
    "store": ("Alias", "EvaluationRecord", "ModelStore", "ModelVersion", "StatisticsCache"),
    "table_format": ("Leftover", "TableFormat", "TableRef"),
    "tables": ("open_table",),
    "tables.cleaning": ("clean_table",),
    "tables.inspection": ("TableInspection", "inspect_table"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"

__all__ = sorted(_HOME)


class _Face(types.ModuleType):
    """This package, whose function `estimators` its subpackage of that name does not hide."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOME or not isinstance(value, types.ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face


def __getattr__(name: str) -> Any:
    """A public name, from where it lives: NumPy and the rest are loaded when they are needed."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
