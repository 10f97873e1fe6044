"""probclass: Bayes classifiers from tables, and scored tables from Bayes classifiers.

The public face. To read the code as a story, follow the road::

    spec            what a model is to be: a prior times blocks of columns
    tables/         plan fragments of a table, read record batches
    arrays          the only door from Arrow to NumPy
    terms           its sibling for sparse counts, such as the words of a text
    estimator       the contract of a likelihood estimator: four verbs and their laws
    moments         count, mean, scatter, and the only merge of moments
    histogram       counts of a numeric column on a grid, and their only merge
    estimators/     the families, one file each
    table_format    the address of a table, and what a plugin registers for a format
    hookspecs, plugins   how estimators are found, built-in or not
    statistics      what training knows of some rows: a monoid
    model           prior + parameters -> log-likelihoods
    posterior       the only normalisation, and decisions
    decision        rules: costs, rejection, maximum likelihood
    calibration, density_quantiles   what is measured once a model is fitted
    reliability     whether probabilities mean what they say
    scoring, evaluation  a batch scored, a batch measured
    explanation, ledger  why a row has its class, entry by entry
    comparison      which of several models the data support
    bayes           Bayes' rule on plain tables
    store/, bundle  models as verified Arrow tables, versions, aliases; kept statistics
    engines/        who runs the map
    sharding        what each of many tasks summarises
    pipeline        fit, score, evaluate: the road end to end
    held_out        calibrate, with_density_quantiles
    cli, plots      the same for hands and eyes
    sklearn/        the same as a classifier of arrays and DataFrames
    authoring       what the author of an estimator needs beside the contract
    testing/        the laws of the contract as tests, for authors of estimators
"""

import probclass_core.estimators  # noqa: F401  # first, or it would hide the function so named
from probclass_core.bayes import BayesTable, bayes_rule
from probclass_core.comparison import Comparison, ModelOdds, compare
from probclass_core.decision import DecisionRule
from probclass_core.errors import (
    DataError,
    NotSupportedError,
    PluginError,
    ProbClassError,
    SpecError,
    StoreError,
    TableError,
)
from probclass_core.estimator import (
    POINT_MASS_WIDTH,
    PROBCLASS_API,
    EstimatorPlugin,
    Likelihood,
    LikelihoodEstimator,
    Traits,
)
from probclass_core.evaluation import Evaluation
from probclass_core.explanation import Explanation, explain
from probclass_core.held_out import calibrate, with_density_quantiles
from probclass_core.hookspecs import hookimpl
from probclass_core.model import Model, finalize
from probclass_core.pipeline import ScoreReport, evaluate, fit, score, summarize
from probclass_core.plugins import estimators, trying
from probclass_core.sharding import Shard, ShardPlan, plan_shards
from probclass_core.spec import Block, ModelSpec
from probclass_core.statistics import Statistics, merge
from probclass_core.store import Alias, ModelStore, ModelVersion, StatisticsCache
from probclass_core.table_format import Leftover, TableFormat, TableRef
from probclass_core.tables import open_table
from probclass_core.tables.cleaning import clean_table
from probclass_core.tables.inspection import TableInspection, inspect_table

__version__ = "0.1.0"

__all__ = [
    "POINT_MASS_WIDTH",
    "PROBCLASS_API",
    "Alias",
    "BayesTable",
    "Block",
    "Comparison",
    "DataError",
    "DecisionRule",
    "EstimatorPlugin",
    "Evaluation",
    "Explanation",
    "Leftover",
    "Likelihood",
    "LikelihoodEstimator",
    "Model",
    "ModelOdds",
    "ModelSpec",
    "ModelStore",
    "ModelVersion",
    "NotSupportedError",
    "PluginError",
    "ProbClassError",
    "ScoreReport",
    "Shard",
    "ShardPlan",
    "SpecError",
    "Statistics",
    "StatisticsCache",
    "StoreError",
    "TableError",
    "TableFormat",
    "TableInspection",
    "TableRef",
    "Traits",
    "bayes_rule",
    "calibrate",
    "clean_table",
    "compare",
    "estimators",
    "evaluate",
    "explain",
    "finalize",
    "fit",
    "hookimpl",
    "inspect_table",
    "merge",
    "open_table",
    "plan_shards",
    "score",
    "summarize",
    "trying",
    "with_density_quantiles",
]
