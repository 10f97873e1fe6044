"""Model stores: saved models, aliases, evaluations, scorings and cached statistics.

records           JSON files that are checked when read: versions, aliases, trainings; references
                  such as ``air@champion``
model_folder      a model in a folder of its own, outside of a store
model_store       `ModelStore` saves, loads, lists and promotes models
promotions        `Ledger` of promotions: what an alias named, when, by whom and why
gate              whether a challenger is better than the champion
results           recorded evaluations and scorings, and all records of a model
statistics_cache  `StatisticsCache` finds, saves, lists and removes the statistics of units

`probclass_core.arrow.bundle` defines the files of a model. On disk:

    <store>/<model>/<content id>/manifest.json     written last: a version exists once it does
    <store>/<model>/<content id>/tables.arrow      priors, parameters of each block, calibration …
    <store>/<model>/aliases/<alias>.json           the version that it names, and since when
    <store>/<model>/promotions/<alias>/<time>-<content id>.json      a promotion, or a refused one
    <store>/<model>/evaluations/<content id>/<digest>.json      result, and on which rows
    <store>/<model>/scorings/<time>-<digest>.json               partitions that were scored
    <store>/<model>/trainings/<digest of inputs>.json           the version that a training made
    <store>/_statistics/…                          cached statistics; see `statistics_cache`

A content id is 64 hex digits and ``aliases`` is not, so the two never clash; the name of a model
never begins with ``_``. Names that begin with a dot are temporary files of one writer.
"""
