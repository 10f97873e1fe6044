"""Accuracy benchmark: error, log loss and calibration of probclass and of other libraries.

In reading order::

    tables      what is classified: real tables, lakes, and generated tables with a known optimum
    generators  the generated tables
    models      what classifies: models of probclass, peers, and the class prior
    scores      metrics, and the runs of every model on every fold
    report      figures as JSON and as Markdown tables, compared with each peer
    plot        log loss of every table as a plot

``python -m benchmarks.accuracy`` (or ``make accuracy``) runs all of it; ``--help`` explains how to
run some, or your own table.
"""
