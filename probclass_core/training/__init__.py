"""From fragments to statistics.

shards  cut a table into shards for many tasks
"""
