"""A fitted model: prior and blocks, log-likelihoods, posterior, decision.

What a model is and says of rows:

model              Model: start reading here
block_weights      weights of blocks: a pool of densities
posterior          posteriors from joint log-likelihoods: the only normalization
calibration        posteriors corrected on held-out rows
decision           decision rules: maximum posterior, maximum likelihood, costs, rejection
bin_densities      densities of numbers within their bins, for log p(x)
density_quantiles  quantiles of log p(x)
contributions      what each column adds to log odds and to the surprise of a row
description        a model as text
stored             a model from its stored tables, which are checked

How statistics become one, in this order:

finalize           from statistics to a model, also one in which old rows count less: start here
left_out           rows to fit weights on, and what blocks say that did not see them
weight_problem     weights and biases that maximize a penalized likelihood
weight_fit         the weights of a model
fewest_blocks      the fewest blocks that predict as well as all candidates
"""
