"""The native side of a call, as LLVM IR of our own: the callable type, the entries, the support functions."""
