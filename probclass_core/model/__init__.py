"""A fitted model: prior and blocks, log-likelihoods, posterior, decision.

model              Model: start reading here
finalize           from statistics to a model: start reading here, too
product            prior and parameters: the product of blocks
prior              the class prior
description        a model as text
posterior          posteriors from joint log-likelihoods: the only normalization
block_weights      weights of blocks: a pool of densities
weight_problem     weights and biases that maximize a penalized likelihood
weight_fit         the weights of a model, on rows that its blocks did not see
contributions      what each column adds to log odds and to the surprise of a row
bin_densities      densities of numbers within their bins, for log p(x)
half_life          how fast rows count less with the age of their partition
left_out           rows to fit weights on, and what blocks say that did not see them
fewest_blocks      the fewest blocks that predict as well as all candidates
decision           decision rules: maximum posterior, maximum likelihood, costs, rejection
calibration        posteriors corrected on held-out rows
density_quantiles  quantiles of log p(x)
stored             a model from its stored tables, which are checked
"""
