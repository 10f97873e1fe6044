"""Categories with pseudo-counts.

independent  categorical: each column independent of the others, given the class
joint        categorical_joint: all columns of the block together
domains      options: domains of columns, pseudo-counts, unseen values
cells        the combinations of category codes that occur
"""
