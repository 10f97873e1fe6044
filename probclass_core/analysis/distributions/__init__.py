"""Distributions of columns: of two models, and of the rows of a partition; no labels are needed.

reading           the distribution of each column of a model, as its likelihoods describe it
grid              a curve as masses of points, from which sums replace integrals
divergence        the Jensen–Shannon divergence in bits
drift             `drift`: two models compared class by class and column by column
health            `Health`, the record of one partition
meter             what a model expects of each column, and the health of rows while they are scored
watch             `Watch`: the checks before a commit and of an evaluation, and `Verdict`
"""
