"""Programs for NVIDIA devices: kernels as PTX, and the host driver that launches them (docs/gpu.md)."""
