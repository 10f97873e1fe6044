"""The commands, one module per group; see `probclass_core.cli`."""
