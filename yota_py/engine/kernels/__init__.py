"""Loop nests as LLVM, and the store of compiled ones."""
