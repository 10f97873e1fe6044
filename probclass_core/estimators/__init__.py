"""The built-in likelihood estimators, one file per family.

gaussian_diagonal   independent normal features
gaussian_full       a multivariate normal with full covariance
gaussian_shared     the same, with one covariance for all classes
categorical         independent categories with pseudo-counts
categorical_joint   the joint distribution of categories, cells unseen and all
discretized         numbers cut into bins
bernoulli           features present or absent, such as the words of a text
multinomial         counts that share out a total
poisson             independent counts of events
knn_density         k-nearest-neighbour density

What several of them share stands beside them::

    tidy                tables of one row per class, feature and cell
    normal_checks       refusals of statistics that cannot carry a normal model
    normal_prior        the options of the normal families' conjugate prior
    normal_densities    normal and Student's t, compiled for many batches
    domains             domains of categorical columns, and their pseudo-counts
    cells               combinations of categories, numbered by what occurs
    cuts                where to cut a numeric column into bins
    term_counts         columns, statistics and parameters of counts
    balls               the ball around a row that holds its K nearest points
    trees, neighbours, approximate   ways to find these: few dimensions, many, very many points

Each family registers through the same hook that third parties use (`probclass_core.hookspecs`).
"""
