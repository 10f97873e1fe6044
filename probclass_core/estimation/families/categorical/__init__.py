"""Categories with pseudo-counts.

independent  categorical: each column on its own, given the class
joint        categorical_joint: all columns of the block together
domains      domains of columns and their pseudo-counts
cells        combinations of category codes that occur
"""
