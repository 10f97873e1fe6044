"""The built-in likelihood estimators, one file per family.

gaussian_diagonal   independent normal features
gaussian_full       a multivariate normal with full covariance
gaussian_shared     the same, with one covariance for all classes
categorical         independent categories with pseudo-counts
knn_density         k-nearest-neighbour density

Each module registers through the same hook that third parties use (`probclass_core.hookspecs`).
"""
