"""The built-in likelihood estimators, one package per family.

gaussian/     full, diagonal and shared covariance
categorical/  independent categories and their joint distribution
counts/       bernoulli, multinomial, poisson
discretized/  numbers cut into bins
knn/          k-nearest-neighbor density
conditional/  columns given other columns
strength      strength of a prior, given or by leave-one-out
left_out      probabilities from counts without one row
scarce        columns and classes with too few values: errors and notes
built_in      registration of the estimators as a plugin
"""
