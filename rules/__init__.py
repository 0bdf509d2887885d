"""Rules, kernels and test cases of NumPy's and SciPy's functions: one file per area, one place per function."""
