"""The built-in likelihood estimators, by family.

gaussian/          full, diagonal and shared covariance
counted/           categories and numbers in bins: alone, given other columns, together
counts             bernoulli, multinomial, poisson
knn/               k-nearest-neighbor density
scarce             sentences on columns and classes with too few values
built_in           registration of the estimators as a plugin
"""
