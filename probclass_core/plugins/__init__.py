"""Plugins: estimators, table formats and engines, found by name.

descriptors  descriptors that plugins register, and their API version
hookspecs    the hooks that plugins implement
manager      finds and loads built-in and third-party plugins
"""
