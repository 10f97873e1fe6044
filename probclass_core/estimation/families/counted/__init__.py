"""Counted cells: categories and numbers in bins, alone, given other columns, or together.

estimator   categorical and discretized, with and without given columns
joint       categorical_joint: all columns of the block together
encoder     codes of a column: a category by its domain, a number by its cut points
labels      cells as tables of statistics name them, and parts left out
chain       the estimate, which backs off from one given column to the next; strengths of priors
likelihood  log p(x | z, c) of rows, and as formula, cells and marginals
cuts        cut points by width, by frequency, or by the classes (MDL)
options     options of all of these
"""
