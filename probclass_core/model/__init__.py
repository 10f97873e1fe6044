"""A fitted model: prior times blocks, posterior, decision.

model              Model and finalize
posterior          the only normalization of posteriors
decision           decision rules: maximum posterior, maximum likelihood, costs, rejection
calibration        posteriors corrected on held-out rows
density_quantiles  quantiles of log p(x)
"""
