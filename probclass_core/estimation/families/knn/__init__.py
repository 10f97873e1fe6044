"""K-nearest-neighbor density.

density      knn_density: the estimator
balls        the smallest ball around a row that contains K training points
trees        exact search by a k-d tree, for few dimensions
brute_force  exact search by matrix products, for many dimensions
approximate  search in cells around centroids, for very many points
"""
