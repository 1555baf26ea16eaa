"""Ahead-of-time libraries: C functions around kernels, their header, the object, and the link step (docs/aot.md)."""
