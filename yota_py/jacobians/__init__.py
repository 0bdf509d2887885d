"""Derivatives of functions with many results, backwards and forwards, dense and sparse."""
