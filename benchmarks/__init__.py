"""Benchmarks: time and memory of probclass, compared with other libraries and with baselines.

In reading order::

    case        what is measured: a case, its implementations, its targets
    cases/      the cases, one file per subject; implementations are plain functions
    datasets    the tables that the cases read, generated from a seed
    worker      runs one implementation in its own process
    runner      rounds of A B C A B C …; results are compared before a time counts
    report      figures as JSON and as Markdown tables; machine and versions
    plot        ratios to the baseline as a plot
    scale       time and memory as the number of rows grows
    accuracy/   error, log loss and calibration on many tables

``python -m benchmarks`` (or ``make bench``) runs all of them; ``--help`` explains how to run some.
"""
