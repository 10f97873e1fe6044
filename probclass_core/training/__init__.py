"""From fragments to statistics.

rows    the rows of a training: summarize fragments, merge in order
shards  cut a table into shards for many tasks
overlap  whether a model was trained on rows of a selection
"""
