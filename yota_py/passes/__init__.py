"""Passes: each reads one tape and writes another."""
