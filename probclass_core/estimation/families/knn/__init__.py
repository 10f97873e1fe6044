"""K-nearest-neighbor density.

density  knn_density: the estimator
balls    the smallest ball around a row that contains K training points
nearest  exact search: by a k-d tree in few dimensions, by matrix products in many
"""
