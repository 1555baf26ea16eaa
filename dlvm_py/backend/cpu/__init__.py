"""The CPU back end: IR at stage scheduled to LLVM IR, an object file and loaded code."""
