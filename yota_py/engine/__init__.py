"""The engine: kernels emitted as LLVM through numba, and the driver that runs them."""
