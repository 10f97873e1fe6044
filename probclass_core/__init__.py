"""probclass: Bayes classifiers from tables, and scored tables from Bayes classifiers.

    import probclass_core as pc

    model = pc.fit("lake", label="air")
    pc.score(model, "lake", "scored")

Say what to model
    `ModelSpec`, from a table by `ModelSpec.auto`; `Block`; `estimators` lists the densities.
Train
    `fit` is `summarize`, `merge` and `finalize`; `calibrate`, `with_density_quantiles`.
Use a `Model`
    `score` writes what is missing or stale in a table, as `ScoringOptions`, a `DecisionRule`, a
    `Watch` and `Partitions` say; `score_sql` lets a database do it. `explain`, `importance`.
Judge it
    `evaluate`, `cross_validate`, `compare`; without labels `health` and `drift`. `bayes_rule` is
    the textbook's table.
Keep it
    `ModelStore`; `load` for a folder of one model; `promote_if_better` and its `Gate`.
Read and write tables
    `TableRef`, `SqlSource`, `open_table`, `inspect_table`, `commits`, `clean_table`.
Extend it
    `Density`, `Estimator`, `hookimpl`, `trying`; more in `probclass_core.authoring`.
Catch its errors
    `ProbClassError`, and those derived from it in `errors`.

Everything is loaded when it is first used. `ProbClassifier` is in `probclass_core.sklearn`, plots
are in `probclass_core.plots`. Records, such as a `ScoreReport`, and functions that few people call
are imported from the modules where they are defined; docs/api names them.

The packages follow the pipeline::

    table -> units -> statistics -> parameters -> log-likelihoods -> posterior -> table

    attached     methods such as `Model.save`, attached below to classes of lower packages
    release      the number of this release
    errors       exceptions; messages say what is wrong, where, and how to fix it
    display      how records, tables and models print, as text and as HTML
    arguments    arguments of public functions, checked against their annotations
    spec/        Block, ModelSpec: what to model; files of specs
    plugins/     descriptors, hook specifications, and the manager that finds plugins by name
    arrow/       from Arrow to NumPy; tables as checksummed files
    execution/   engines: threads, processes, executors, Spark
    estimation/  the estimator contract, sufficient statistics, the families of densities
    model/       prior + blocks -> log-likelihoods -> posterior -> decision
    io/          tables: plan and read units, stage and commit partitions
    store/       saved models, aliases, evaluations, cached statistics
    analysis/    evaluation, explanation, comparison, drift
    training/    units -> statistics, in one or many tasks; calibration
    scoring/     whatever is missing or stale in a scored table -> scored partitions
    pipeline/    fit, summarize, compare, score, evaluate, cross_validate: start reading here
    sql/         a model as one SQL query; statistics that a database computes
    operation/   judge, promote and replace versions
    structure/   from a table to a spec: roles of columns, blocks that help
    authoring    helpers for authors of estimators
    cli/  plots/  report/  sklearn/  testing/  demo/
"""

import lazy_loader

from probclass_core.attached import (
    EvaluationMethods,
    ExplanationMethods,
    ImportanceMethods,
    ModelMethods,
    ModelSpecMethods,
    attach,
)
from probclass_core.release import VERSION

__version__ = VERSION

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

attach(ModelMethods, "plot", "plots:ModelPlots", property)
attach(ModelMethods, "predict_table", "scoring.batch:predict_table")
attach(ModelMethods, "report", "report.page:report")
attach(ModelMethods, "save", "store.model_folder:save")
attach(ModelMethods, "to_sql", "sql.query:to_sql")
attach(ModelSpecMethods, "auto", "structure.auto:auto", staticmethod)
attach(EvaluationMethods, "plot", "plots.results:reliability")
attach(ExplanationMethods, "plot", "plots.results:waterfall")
attach(ImportanceMethods, "plot", "plots.results:importance")
