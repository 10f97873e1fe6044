"""What `attached` has when the code runs, for type checkers and editors."""

from probclass_core.plots import ModelPlots
from probclass_core.plots.results import importance as _importance
from probclass_core.plots.results import reliability as _reliability
from probclass_core.plots.results import waterfall as _waterfall
from probclass_core.report.page import report as _report
from probclass_core.scoring.batch import predict_table as _predict_table
from probclass_core.sql.query import to_sql as _to_sql
from probclass_core.store.model_folder import save as _save
from probclass_core.structure.auto import auto as _auto

class ModelMethods:
    predict_table = _predict_table
    report = _report
    save = _save
    to_sql = _to_sql

    @property
    def plot(self) -> ModelPlots: ...

class ModelSpecMethods:
    auto = staticmethod(_auto)

class EvaluationMethods:
    plot = _reliability

class ExplanationMethods:
    plot = _waterfall

class ImportanceMethods:
    plot = _importance
