"""Normal densities: one variance per feature, a full covariance, or one covariance for all classes.

diagonal   gaussian_diagonal
full       gaussian_full, gaussian_shared
options    the options that all share: ddof, conjugate_prior, predictive
shrinkage  shrinkage of covariances towards their diagonal, by OAS or by a number
checks     errors for statistics that do not suffice for a normal density
densities  the compiled densities: normal and Student's t
"""
