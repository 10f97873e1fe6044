"""The built-in likelihood estimators, one file per family.

gaussian_diagonal   independent normal features
gaussian_full       a multivariate normal with full covariance
gaussian_shared     the same, with one covariance for all classes
categorical         independent categories with pseudo-counts
categorical_joint   the joint distribution of categories, cells unseen and all
discretized         numbers cut into bins
knn_density         k-nearest-neighbour density

Beside them: domains (of categorical columns), cells (combinations of categories), cuts (of numeric
columns into bins) and tidy (tables taken apart by feature).

Each family registers through the same hook that third parties use (`probclass_core.hookspecs`).
"""
