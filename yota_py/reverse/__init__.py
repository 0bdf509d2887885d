"""Reverse mode: ``to_rrules``, ``backprop`` and ``finish`` make the gradient tape."""
