"""The built-in likelihood estimators, one package per family.

gaussian/          full, diagonal and shared covariance
counted/           categories and numbers in bins: alone, given other columns, together
counts/            bernoulli, multinomial, poisson
knn/               k-nearest-neighbor density
joint_conditional  columns given others, from a joint distribution of all of them
scarce             sentences on columns and classes with too few values
built_in           registration of the estimators as a plugin
"""
