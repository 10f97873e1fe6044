"""A model that is used for years: versions judged and replaced.

order      how far a model was judged, and how far partitions are apart
promotion  promote a challenger that beats the champion
upstream   scored partitions whose rows changed since
runs       windows of a scheduled run, judgment of the version that scored, fallback
"""
