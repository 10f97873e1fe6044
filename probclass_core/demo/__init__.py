"""The demonstration: five years of bundled air-quality data, written as a partitioned lake.

lake  lay_out writes the lake; so does ``python -m probclass_core.demo.lake DIRECTORY``
"""
