"""Program to program: one pass a file; see docs/architecture.md for their order and contracts."""
