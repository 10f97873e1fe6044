"""What to model, as a value that is independent of data.

model_spec  Block, ModelSpec: blocks of columns, an estimator for each, and a class prior
files       TOML, JSON and YAML files as plain values: specs, costs, watches, projects
"""
