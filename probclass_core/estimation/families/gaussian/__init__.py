"""Normal densities: one variance per feature, a full covariance, or one covariance for all classes.

diagonal  gaussian_diagonal and its density
full      gaussian_full and gaussian_shared; shrinkage by OAS or by a number
normal    what all share: options, the conjugate prior, the scale of a feature, notes
"""
