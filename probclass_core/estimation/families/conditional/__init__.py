"""Columns given other columns: p(columns | given, class), for blocks with ``given``.

joint  from the joint distribution of both, divided by that of the given columns
"""
