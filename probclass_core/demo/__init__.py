"""Real tables that come with the package: the demonstration, and the examples of the documentation.

lake      lay_out writes five years of air-quality data as a partitioned lake; so does
          ``python -m probclass_core.demo.lake DIRECTORY``
examples  example_file gives the path of a small table, such as ``penguins.csv``
"""
