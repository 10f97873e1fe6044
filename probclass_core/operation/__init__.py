"""A model that is used for years: scored tables kept up to date, versions judged and replaced.

reconciliation  score the partitions that are missing or stale in a scored table
promotion       promote a challenger that beats the champion
runs            windows of a scheduled run, judgment of the version that scored, fallback
"""
