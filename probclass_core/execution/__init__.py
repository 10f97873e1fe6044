"""Engines: run the same work on threads, processes, executors or Spark.

engine         the interface
open           open an engine by name, executor or session; registers the built-in ones
threads        threads of this process, and an ordered map over them
executors      processes of this machine, and any `concurrent.futures.Executor`
spark          executors of a Spark session
serialization  work, items and results as bytes, large buffers in shared memory, and retries
progress       counts of rows across threads
"""
