"""Models at rest: saved once, verified on every load, named by what they are.

A map of the folder, in reading order:

- `refs`: names, aliases and references such as ``air@champion``; what they resolve to.
- `files`: the few things a store asks of a file system, for a local folder and for fsspec.
- `model_store`: `ModelStore`, which saves, loads, lists and promotes.
- `evaluations`: how well a version did, kept beside it.
- `packs`: tables of many fragments in one file.
- `statistics_cache`: `StatisticsCache`, which keeps those of many models, lists and removes them.
- `display`: records as short text without credentials, for the command line and the pages.

What a model looks like as files is told in `probclass_core.arrow.bundle`. On disk:

    <store>/<model>/<content id>/manifest.json     written last: without it there is no version
    <store>/<model>/<content id>/<table>.arrow     priors, parameters of each block, calibration …
    <store>/<model>/aliases/<alias>.json           which version it names, since when, and before
    <store>/<model>/evaluations/<content id>/<digest>.json      how well it did, and on which rows
    <store>/_statistics/…                          statistics of fragments; see `statistics_cache`

A content id is 64 hex digits and ``aliases`` is not, so the two never clash; no model's name begins
with ``_``. Names that begin with a dot are work in progress and belong to nobody else.
"""
