"""The public API: where each name is defined; ``__init__.py`` loads it when it is first used."""

from .analysis.bayes_rule import BayesTable as BayesTable, bayes_rule as bayes_rule
from .analysis.comparison import Comparison as Comparison, ModelOdds as ModelOdds
from .pipeline.cross_validation import (
    CrossValidation as CrossValidation,
    CrossValidations as CrossValidations,
    cross_validate as cross_validate,
)
from .arrow.sparse_counts import counts_column as counts_column
from .model.decision import DecisionRule as DecisionRule
from .analysis.distributions.drift import Drift as Drift, drift as drift
from .execution.engine import Engine as Engine
from .plugins.descriptors import EnginePlugin as EnginePlugin
from .errors import (
    DataError as DataError,
    HealthError as HealthError,
    MissingLabelsError as MissingLabelsError,
    NotSupportedError as NotSupportedError,
    PartitionError as PartitionError,
    PluginError as PluginError,
    ProbClassError as ProbClassError,
    RollbackError as RollbackError,
    RolledBackError as RolledBackError,
    SpecError as SpecError,
    StoreError as StoreError,
    TableError as TableError,
    TableMismatchError as TableMismatchError,
)
from .estimation.density import Density as Density
from .estimation.contract import (
    POINT_MASS_WIDTH as POINT_MASS_WIDTH,
    Likelihood as Likelihood,
    Estimator as Estimator,
)
from .plugins.descriptors import (
    PROBCLASS_API as PROBCLASS_API,
    EstimatorPlugin as EstimatorPlugin,
)
from .analysis.evaluation import Evaluation as Evaluation
from .analysis.explanation import Explanation as Explanation, explain as explain
from .analysis.distributions.health import Health as Health
from .analysis.distributions.verdicts import Verdict as Verdict
from .analysis.distributions.watch import Watch as Watch
from .analysis.importance import Importance as Importance, importance as importance
from .training.postfit import (
    calibrate as calibrate,
    with_density_quantiles as with_density_quantiles,
)
from .operation.runs import (
    Judgment as Judgment,
    RunPlan as RunPlan,
    judge_served as judge_served,
    plan_run as plan_run,
)
from .plugins.hookspecs import hookimpl as hookimpl
from .model.finalize import finalize as finalize
from .model.model import Model as Model
from .pipeline.comparison import compare as compare
from .pipeline.evaluation import evaluate as evaluate, health as health
from .pipeline.scoring import score as score
from .pipeline.training import fit as fit, summarize as summarize
from .scoring.commits import commits as commits
from .scoring.options import ScoringOptions as ScoringOptions
from .scoring.reports import PartitionOutcome as PartitionOutcome, ScoreReport as ScoreReport
from .scoring.selection import Partitions as Partitions
from .operation.promotion import (
    evaluate_paired as evaluate_paired,
    promote_if_better as promote_if_better,
)
from .plugins.manager import estimators as estimators, trying as trying
from .training.shards import (
    Shard as Shard,
    ShardPlan as ShardPlan,
    plan_shards as plan_shards,
)
from .spec.model_spec import Block as Block, ModelSpec as ModelSpec
from .estimation.statistics import Statistics as Statistics, merge as merge, refine as refine
from .analysis.paired import Gain as Gain, PairedEvaluation as PairedEvaluation
from .store.gate import Gate as Gate
from .store.references import Alias as Alias
from .store.evaluations import EvaluationRecord as EvaluationRecord
from .store.model_folder import load as load
from .store.model_records import ModelRecords as ModelRecords
from .store.model_store import ModelStore as ModelStore
from .store.promotions import Promotion as Promotion
from .store.references import ModelVersion as ModelVersion
from .store.scorings import ScoringRecord as ScoringRecord
from .store.statistics_cache import StatisticsCache as StatisticsCache
from .io.references import Leftover as Leftover, TableRef as TableRef
from .plugins.descriptors import TableFormat as TableFormat
from .io.filters import parse_where as parse_where
from .io.open import open_table as open_table
from .sql.scoring import score_sql as score_sql
from .sql.source import SqlSource as SqlSource
from .io.labels import LabelCounts as LabelCounts, count_labels as count_labels
from .io.cleaning import clean_table as clean_table
from .io.inspection import (
    TableInspection as TableInspection,
    inspect_table as inspect_table,
)

__version__: str
