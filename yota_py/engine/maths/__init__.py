"""Elementwise functions as LLVM, many lanes at once."""
