"""The bundled demonstration: five years of Beijing's air, laid out as a monthly lake.

`lake.lay_out` writes the lake; ``python -m probclass_core.demo.lake DIRECTORY`` does so by hand.
"""
