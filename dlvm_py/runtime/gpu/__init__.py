"""Calling GPU programs: the device, real or emulated, and memory that moves between it and the host."""
