"""A figure of time against size: one panel a kernel, one line a tool."""

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt  # noqa: E402

from harness.table import OURS, merged  # noqa: E402


def growth(results, path):
    """Nanoseconds an element against elements, gradients dashed, as an SVG file."""
    kernels = list(dict.fromkeys(r["case"]["kernel"] for r in results))
    columns = min(3, len(kernels))
    rows = -(-len(kernels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False)
    colours = {}
    for axis, kernel in zip(axes.flat, kernels, strict=False):
        series = {}
        for result in results:
            if result["case"]["kernel"] == kernel:
                size = int(result["case"]["size"])
                for peer, record in merged(result["tools"]).items():
                    if "time_s" in record:
                        series.setdefault((peer, result["mode"]), []).append((size, record["time_s"] / size * 1e9))
        for (peer, mode), points in series.items():
            colour = colours.setdefault(peer, f"C{len(colours)}")
            points.sort()
            style = {"linestyle": "--" if mode == "gradient" else "-", "linewidth": 2 if peer == OURS else 1}
            label = peer + (" gradient" if mode == "gradient" else "")
            axis.plot(*zip(*points, strict=True), color=colour, marker=".", label=label, **style)
        axis.set(xscale="log", yscale="log", title=kernel, xlabel="elements", ylabel="ns an element")
        axis.legend(fontsize=6)
    for axis in axes.flat[len(kernels) :]:
        axis.set_axis_off()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
