"""A fitted model: prior and blocks, log-likelihoods, posterior, decision.

model              Model and finalize: start reading here
posterior          posteriors from joint log-likelihoods: the only normalization
block_weights      weights of blocks, fitted on rows that their parameters did not see
fewest_blocks      the fewest blocks that predict as well as all candidates
decision           decision rules: maximum posterior, maximum likelihood, costs, rejection
calibration        posteriors corrected on held-out rows
density_quantiles  quantiles of log p(x)
stored             what a stored model must be: checked when it is loaded
"""
