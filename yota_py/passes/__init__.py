"""Passes over tapes: each reads one tape and writes another."""
