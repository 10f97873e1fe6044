"""A model that is used for years: versions judged and replaced.

order      how far a model was judged, how far partitions are apart, what changed upstream
promotion  promote a challenger that beats the champion
runs       windows of a scheduled run, judgment of the version that scored, fallback
"""
