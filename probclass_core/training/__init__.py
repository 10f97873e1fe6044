"""Training: from units to statistics, and what rows say about a model that did not see them.

rows     the rows of a training: summarize units, merge in order
shards   cut a table into shards for many tasks
overlap  whether a model was trained on rows of a selection
postfit  calibration and density quantiles, measured on a table after a model is fitted
"""
