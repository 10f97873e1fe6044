"""Plugins: estimators, table formats and engines, found by name.

descriptors  what plugins register
hookspecs    the hooks
manager      finds built-in and third-party plugins
"""
