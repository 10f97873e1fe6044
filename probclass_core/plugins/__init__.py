"""Plugins: estimators, table formats and engines, found by name.

hookspecs    the hooks that plugins implement, what they register, and its API version
manager      finds and loads built-in and third-party plugins
"""
