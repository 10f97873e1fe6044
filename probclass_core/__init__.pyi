"""The public face: where each name is defined; ``__init__.py`` loads it when it is first used."""

from . import errors as errors
from .analysis.bayes_rule import bayes_rule as bayes_rule
from .analysis.distributions.drift import drift as drift
from .analysis.distributions.watch import Watch as Watch
from .analysis.explanation import explain as explain
from .analysis.importance import importance as importance
from .errors import ProbClassError as ProbClassError
from .estimation.contract import Estimator as Estimator
from .estimation.density import Density as Density
from .estimation.statistics import merge as merge
from .io.inspection import clean_table as clean_table
from .io.inspection import inspect_table as inspect_table
from .io.open import open_table as open_table
from .io.references import TableRef as TableRef
from .model.decision import DecisionRule as DecisionRule
from .model.finalize import finalize as finalize
from .model.model import Model as Model
from .operation.promotion import promote_if_better as promote_if_better
from .pipeline.cross_validation import cross_validate as cross_validate
from .pipeline.evaluation import compare as compare, evaluate as evaluate, health as health
from .pipeline.training import fit as fit, summarize as summarize
from .plugins.hookspecs import hookimpl as hookimpl
from .plugins.manager import estimators as estimators, trying as trying
from .scoring.selection import commits as commits
from .scoring.options import ScoringOptions as ScoringOptions
from .scoring.score import score as score
from .scoring.selection import Partitions as Partitions
from .spec.model_spec import Block as Block, ModelSpec as ModelSpec
from .sql.scoring import score_sql as score_sql
from .sql.source import SqlSource as SqlSource
from .store.gate import Gate as Gate
from .store.model_folder import load as load
from .store.model_store import ModelStore as ModelStore
from .training.postfit import (
    calibrate as calibrate,
    with_density_quantiles as with_density_quantiles,
)

__version__: str
