"""Gradient benchmarks: yota_py beside NumPy, Autograd, JAX and PyTorch in one process."""
