"""probclass: Bayes classifiers from tables, and scored tables from Bayes classifiers.

The public API, loaded lazily. The packages follow the pipeline::

    table -> fragments -> statistics -> parameters -> log-likelihoods -> posterior -> table

    errors       exceptions; messages say what is wrong, where, and how to fix it
    arguments    arguments of public functions, checked against their annotations
    spec/        Block, ModelSpec: what to model; files of specs
    plugins/     descriptors, hook specifications, and the manager that finds plugins by name
    arrow/       from Arrow to NumPy; tables as checksummed files
    execution/   engines: threads, processes, executors, Spark
    estimation/  the estimator contract, sufficient statistics, the families of densities
    model/       prior + blocks -> log-likelihoods -> posterior -> decision
    io/          tables: plan and read fragments, stage and commit partitions
    store/       saved models, aliases, evaluations, cached statistics
    analysis/    evaluation, explanation, comparison, drift
    training/    fragments -> statistics, in one or many tasks; cross-validation; calibration
    scoring/     partitions -> scored partitions
    pipeline/    fit, summarize, compare, score, evaluate: start reading here
    sql/         a model as one SQL query; statistics that a database computes
    operation/   keep scored tables up to date, judge, promote and replace versions
    structure/   from a table to a spec: roles of columns, blocks that help
    authoring    helpers for authors of estimators
    cli/  plots/  report/  sklearn/  testing/  demo/
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
