"""Loops and batches that users say themselves: ``scan``, ``while_loop``, ``vmap``."""
