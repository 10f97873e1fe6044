"""Counted cells: categories and numbers in bins, alone, given other columns, or together.

estimator  categorical and discretized, with and without given columns
joint      categorical_joint: all columns of the block together
encoder    codes of columns: of the rows of a batch, and of the cells that tables name
chain      the estimate, which backs off from one given column to the next, and its likelihood
cuts       cut points by width, by frequency, or by the classes (MDL)
options    options of all of these
"""
