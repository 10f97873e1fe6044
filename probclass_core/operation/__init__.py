"""A model that is used for years: versions judged and replaced.

promotion  promote a challenger that beats the champion
runs       windows of a scheduled run, judgment of the version that scored, fallback
"""
