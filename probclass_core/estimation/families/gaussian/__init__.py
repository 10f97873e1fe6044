"""Normal densities: one variance per feature, a full covariance, or one covariance for all classes.

estimators  gaussian_diagonal, gaussian_full, gaussian_shared
options     the options that all share: ddof, conjugate_prior
shrinkage   shrinkage of covariances towards their diagonal, by OAS or by a number
checks      errors for statistics that do not suffice for a normal density
densities   the compiled densities
"""
