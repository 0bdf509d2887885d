"""What everything stands on: containers, dtypes, settings, locks, tracebacks."""
