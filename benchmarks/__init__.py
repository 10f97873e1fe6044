"""Benchmarks: time and memory of probclass, compared with other libraries and with baselines.

In reading order::

    case        what is measured: a case, its implementations, its targets
    cases/      the cases, one file per subject; implementations are plain functions
    datasets    the tables that the cases read, generated from a seed
    worker      runs one implementation in its own process
    runner      rounds of A B C A B C …; results are compared before a time counts
    environment the date, the machine and the versions of packages
    figures     the stored figures of the last recorded runs, as JSON in figures/
    report      results as Markdown
    pages       the pages of figures, from templates/ and the stored figures
    peers       the posterior of a model by DuckDB and by Polars
    scale       time and memory as the number of rows grows
    partitions  processor time of a task that scores many partitions
    accuracy/   error, log loss and calibration on many tables
    years/      a model in operation, month by month

``python -m benchmarks`` (or ``make bench``) runs all of them; ``--help`` explains how to run some.
"""
