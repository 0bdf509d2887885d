"""The engine: a lowered tape becomes kernels in LLVM, compiled by llvmlite, and a driver that runs them.

Importing it is cheap; llvmlite is imported when the first tape is compiled.
"""
