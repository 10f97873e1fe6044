"""Engines: run the same work on threads, processes, executors or Spark.

engine         the interface
open           open an engine by name, executor or session
progress       progress reports, counted across threads
threads        ordered map over threads of this process
local          the engine of threads
executors      processes of this machine and concurrent.futures executors
spark          executors of a Spark session
serialization  work, items and results on their way to other processes
shared_memory  large buffers shared by processes of one machine
built_in       registers the engines
"""
