"""The public face for type checkers; ``__init__.py`` loads each name when it is asked for."""

from probclass_core.bayes import BayesTable as BayesTable, bayes_rule as bayes_rule
from probclass_core.comparison import (
    Comparison as Comparison,
    ModelOdds as ModelOdds,
    compare as compare,
)
from probclass_core.decision import DecisionRule as DecisionRule
from probclass_core.drift import Drift as Drift, drift as drift
from probclass_core.engine import Engine as Engine, EnginePlugin as EnginePlugin
from probclass_core.errors import (
    DataError as DataError,
    NotSupportedError as NotSupportedError,
    PluginError as PluginError,
    ProbClassError as ProbClassError,
    SpecError as SpecError,
    StoreError as StoreError,
    TableError as TableError,
)
from probclass_core.estimator import (
    POINT_MASS_WIDTH as POINT_MASS_WIDTH,
    PROBCLASS_API as PROBCLASS_API,
    EstimatorPlugin as EstimatorPlugin,
    Likelihood as Likelihood,
    LikelihoodEstimator as LikelihoodEstimator,
    Traits as Traits,
)
from probclass_core.evaluation import Evaluation as Evaluation
from probclass_core.explanation import Explanation as Explanation, explain as explain
from probclass_core.held_out import (
    calibrate as calibrate,
    with_density_quantiles as with_density_quantiles,
)
from probclass_core.hookspecs import hookimpl as hookimpl
from probclass_core.model import Model as Model, finalize as finalize
from probclass_core.pipeline import (
    ScoreReport as ScoreReport,
    evaluate as evaluate,
    fit as fit,
    score as score,
    summarize as summarize,
)
from probclass_core.plugins import estimators as estimators, trying as trying
from probclass_core.sharding import (
    Shard as Shard,
    ShardPlan as ShardPlan,
    plan_shards as plan_shards,
)
from probclass_core.spec import Block as Block, ModelSpec as ModelSpec
from probclass_core.passes import refine as refine
from probclass_core.statistics import Statistics as Statistics, merge as merge
from probclass_core.store import (
    Alias as Alias,
    EvaluationRecord as EvaluationRecord,
    ModelStore as ModelStore,
    ModelVersion as ModelVersion,
    StatisticsCache as StatisticsCache,
)
from probclass_core.table_format import (
    Leftover as Leftover,
    TableFormat as TableFormat,
    TableRef as TableRef,
)
from probclass_core.tables import open_table as open_table
from probclass_core.tables.cleaning import clean_table as clean_table
from probclass_core.tables.inspection import (
    TableInspection as TableInspection,
    inspect_table as inspect_table,
)

__version__: str
