"""Fit with cached statistics in another process: ``python fit_with_cache.py <lake> <store>``."""

from __future__ import annotations

import sys

from daily_lake import SPEC

import probclass_core as pc

if __name__ == "__main__":
    sys.stdout.write(pc.fit(sys.argv[1], SPEC, cache=sys.argv[2]).id)
