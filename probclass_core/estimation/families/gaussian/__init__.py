"""Normal densities: one variance per feature, a full covariance, or one covariance for all classes.

diagonal   gaussian_diagonal
full       gaussian_full
shared     gaussian_shared
densities  the compiled densities: normal and Student's t
prior      the options conjugate_prior and predictive
checks     refusals of statistics that cannot carry a normal density
"""
