"""The engine: a lowered tape becomes kernels in LLVM, compiled by numba's, and a driver that runs them.

Importing it is cheap; numba and llvmlite are imported when the first tape is compiled.
"""
