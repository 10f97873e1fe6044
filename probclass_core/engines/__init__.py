"""Who runs the map: the same work, in the same order, on one thread or many.

local   threads of this process
"""
