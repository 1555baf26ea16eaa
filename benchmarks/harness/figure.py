"""A figure of time against size: one panel a kernel, one line a tool."""

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402

from harness import problems  # noqa: E402
from harness.table import OURS, merged  # noqa: E402

# of Okabe and Ito, whom most colour-blind people can follow
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def series_of(results, kernel):
    """The points of each line of a panel: {(peer, mode): [(size, nanoseconds for each of them), ...]}."""
    found = {}
    for result in results:
        if result["case"]["kernel"] == kernel:
            size = int(result["case"]["size"])
            for peer, record in merged(result["tools"]).items():
                if "time_s" in record:
                    found.setdefault((peer, result["mode"]), []).append((size, record["time_s"] / size * 1e9))
    return {line: sorted(points) for line, points in found.items()}


def growth(results, path):
    """Nanoseconds for each of what a kernel has many of (its UNIT) against their number, as an SVG file."""
    kernels = list(dict.fromkeys(r["case"]["kernel"] for r in results))
    columns = min(3, len(kernels))
    rows = -(-len(kernels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4 * columns, 3 * rows + 0.4), squeeze=False)
    peers = list(dict.fromkeys([OURS, *(p for r in results for p in merged(r["tools"]))]))
    colours = dict(zip(peers, COLOURS * len(peers), strict=False))
    drawn = set()
    for axis, kernel in zip(axes.flat, kernels, strict=False):
        for (peer, mode), points in series_of(results, kernel).items():
            style = {"linestyle": "--" if mode == "gradient" else "-", "linewidth": 2.2 if peer == OURS else 1.1}
            axis.plot(*zip(*points, strict=True), color=colours[peer], marker=".", markersize=4, **style)
            drawn.add(peer)
        unit = getattr(problems.own_module(kernel), "UNIT", "element")
        axis.set(xscale="log", yscale="log", title=kernel, xlabel=f"{unit}s", ylabel=f"ns / {unit}")
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(kernels) :]:
        axis.set_axis_off()
    lines = [(p, {"color": colours[p], "linewidth": 2.2 if p == OURS else 1.1}) for p in peers if p in drawn]
    lines += [("function", {"color": "0.4"}), ("gradient", {"color": "0.4", "linestyle": "--"})]
    handles = [Line2D([], [], label=label, **style) for label, style in lines]
    figure.legend(handles=handles, loc="lower center", ncol=len(handles), frameon=False)
    figure.tight_layout(rect=(0, 0.4 / (3 * rows + 0.4), 1, 1))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
