"""Calling compiled code: signatures, versions, the native entry, loading of objects, the disk cache."""
