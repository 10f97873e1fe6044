"""Fits with kept statistics in a process of its own: ``python cached_fit.py <lake> <store>``."""

from __future__ import annotations

import sys

from cached_lakes import SPEC

import probclass_core as pc

if __name__ == "__main__":
    sys.stdout.write(pc.fit(sys.argv[1], SPEC, cache=sys.argv[2]).id)
