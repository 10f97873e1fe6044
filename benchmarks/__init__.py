"""Benchmarks: how fast, in how much memory, beside which peers, and how far from the hardware.

Read in this order::

    case        what is measured: a case, its contestants, its bars
    cases/      the cases, one file per family; contestants are plain functions
    catalog   the one tuple that lists them
    lake        the tables they read, generated from a seed
    worker      one contestant in a process of its own
    contest     rounds of A B C A B C …, and results compared before a time counts
    report      figures as JSON and as a table; machine and versions
    plot        ratios to the floor as a picture
    scale       time and memory from many rows to very many

``python -m benchmarks`` (or ``make bench``) runs them all; ``--help`` says how to run some.
"""
