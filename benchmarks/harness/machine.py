"""A sentence: what figures belong to."""

import platform
from pathlib import Path


def sentence(results, threads):
    """The processor, the threads for all, and the versions of Python and of the tools, as far as they are known."""
    versions = {}
    for result in results:
        versions |= {p.split()[0]: r["version"] for p, r in result["tools"].items() if "version" in r}
    cores = f"{threads} thread{'s' * (threads > 1)} for all"
    said = [f"Python {platform.python_version()}", *(f"{name} {version}" for name, version in versions.items())]
    return f"{_cpu()}, {cores}; {', '.join(said)}."


def _cpu():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
