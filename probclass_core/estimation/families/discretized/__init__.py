"""Numbers cut into bins.

bins  discretized: the estimator
cuts  cut points by width, by frequency, or by the classes (MDL)
"""
