"""Tables and summaries of what the races gave: ratios against each peer, losses first.

A result is {"case": {...}, "mode": "function" | "gradient", "tools": {peer: record}}, as race.py makes the records.
"""

from pathlib import Path
from statistics import geometric_mean, median

OURS = "dlvm-py"
BEGIN, END = "<!-- {name}: begin, written by benchmarks/{by} -->", "<!-- {name}: end -->"
TITLES = {
    "own": "Our own kernels",
    "npbench": "NPBench",
    "dace": "NPBench as DaCe's tests differentiate it",
    "gradbench": "GradBench",
}
LOOPS = (  # kernels of NPBench that are loops over rows and elements
    "cholesky lu ludcmp gramschmidt durbin seidel_2d trisolv trmm symm syrk syr2k".split()
)

MORE = (("compile_s", "compiling, s", ".2f"), ("peak_mb", "peak, MB", ".0f"))  # of ours, where they were measured


def merged(tools):
    """The records with the variants of a tool (`Numba np`) as one: the fastest of them, with its `variant` (`np`)."""
    best = {}
    for peer, record in tools.items():
        name, _, variant = peer.partition(" ")
        kept = best.get(name, {})
        if record.get("time_s", float("inf")) < kept.get("time_s", float("inf")) or not kept:
            best[name] = record | ({"variant": variant} if variant and record else {})
    return best


def ratio(tools, peer):
    """A peer's time over ours; None where one of them has no time."""
    theirs, ours = tools.get(peer, {}).get("time_s"), tools.get(OURS, {}).get("time_s")
    return theirs / ours if theirs and ours else None


def best_peer(tools, but=()):
    """(ratio, name) of the fastest peer."""
    ratios = [(ratio(tools, p), p) for p in tools if p != OURS and p not in but]
    return min(((r, p) for r, p in ratios if r), default=None)


def groups(results):
    """The results by (suite, size, mode), kernels merged: [(key, [(kernel, tools), ...]), ...]."""
    found = {}
    for result in results:
        case = result["case"]
        found.setdefault((case["suite"], case["size"], result["mode"]), []).append(
            (case["kernel"], merged(result["tools"]))
        )
    return list(found.items())


def table(rows):
    """Markdown: a row a kernel, the worst for us first; each peer's time as a multiple of ours."""
    peers = [p for p in dict.fromkeys(p for _, tools in rows for p in tools) if p != OURS]
    peers = [p for p in peers if any(ratio(tools, p) for _, tools in rows)]
    more = [m for m in MORE if any(m[0] in tools.get(OURS, {}) for _, tools in rows)]
    head = ["kernel", "dlvm-py, ms", *(f"{p} / ours" for p in peers), *(title for _, title, _ in more)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]

    def rank(row):
        best = best_peer(row[1])
        return (best[0] if best else float("inf")), row[0]

    for kernel, tools in sorted(rows, key=rank):
        ours = tools.get(OURS, {})
        cells = [f"{ours['time_s'] * 1e3:.3g}" if "time_s" in ours else ours.get("error", "–").splitlines()[0][:60]]
        cells += [_cell(tools, p) for p in peers]
        cells += [f"{ours[key]:{digits}}" if ours.get(key) is not None else "–" for key, _, digits in more]
        lines.append(f"| {kernel} | " + " | ".join(cells) + " |")
    return lines


def _cell(tools, peer):
    record = tools.get(peer, {})
    times = ratio(tools, peer)
    if times:
        said = f"**{times:.2f}**" if times < 1 else f"{times:.2f}"
        return f"{said} ({record['variant']})" if "variant" in record else said
    error = record.get("error", "")
    return "differs" if "differ" in error else "too long" if "stopped" in error else "fails" if error else "–"


def summary(rows):
    """Sentences on a group, the losses first."""
    lines = []
    bests = [(best_peer(tools), kernel) for kernel, tools in rows]
    bests = sorted((b[0], kernel, b[1]) for b, kernel in bests if b)
    lost = [f"{kernel} ({1 / r:.2f}x {peer}'s time)" for r, kernel, peer in bests if r < 1]
    if bests:
        lines.append(f"Slower than the fastest peer on {len(lost)} of {len(bests)}: {', '.join(lost) or 'none'}.")
        lines.append(f"Fastest peer's time over ours: geometric mean {geometric_mean(r for r, *_ in bests):.2f}.")
    for peer in dict.fromkeys(p for _, tools in rows for p in tools if p != OURS):
        ratios = [r for _, tools in rows if (r := ratio(tools, peer))]
        if ratios:
            slower = sum(r < 1 for r in ratios)
            loops = [r for kernel, tools in rows if kernel in LOOPS and (r := ratio(tools, peer))]
            of_loops = f" {geometric_mean(loops):.2f} over {len(loops)} of loops," if loops else ""
            lines.append(
                f"{peer}'s time over ours: geometric mean {geometric_mean(ratios):.2f} over {len(ratios)},{of_loops} "
                f"we are slower on {slower}."
            )
    compiles = {p: [t[p]["compile_s"] for _, t in rows if "compile_s" in t.get(p, {})] for p in (OURS, "Numba", "JAX")}
    said = [f"{p} {median(s) * 1e3:.0f} / {max(s) * 1e3:.0f}" for p, s in compiles.items() if s]
    if said:
        lines.append(f"Cold compilation, median / longest, ms: {', '.join(said)}.")
    warm = {p: [t[p]["warm_process_s"] for _, t in rows if "warm_process_s" in t.get(p, {})] for p in compiles}
    said = [f"{p} {median(s) * 1e3:.0f}" for p, s in warm.items() if s]
    if said:
        lines.append(
            f"A second process up to the first call's end (start, imports, disk cache), ms: {', '.join(said)}."
        )
    return lines


def by_size(results, peer, lost_below=0.95):
    """Markdown: a peer's time over ours at each size, and a row for each case that is below a ratio at one of them."""
    sizes = list(dict.fromkeys(r["case"]["size"] for r in results))
    ratios, failed = {}, {}
    for result in results:
        case, found = result["case"], ratio(result["tools"], peer)
        if found:
            ratios.setdefault(case["kernel"], {})[case["size"]] = found
        else:
            failed.setdefault(case["kernel"], result["tools"][OURS]["error"].strip().splitlines()[0])
    lines = []
    for size in sizes:
        found = [r[size] for r in ratios.values() if size in r]
        if found:
            mean, slower, much = geometric_mean(found), sum(r < 1 for r in found), sum(r < 0.9 for r in found)
            said = f"{mean:.2f} (geometric mean of {len(found)}); slower on {slower}, by more than a tenth on {much}"
            lines.append(f"* {size}: {peer}'s time over ours {said}.")
    lines += [f"* `{kernel}`: {why}" for kernel, why in failed.items()]
    lost = sorted((min(r.values()), kernel) for kernel, r in ratios.items() if min(r.values()) < lost_below)
    if lost:
        lines += ["", "| " + " | ".join(["", *sizes]) + " |", "|" + "---|" * (len(sizes) + 1)]
    for _, kernel in lost:
        cells = [f"{r:.2f}" if (r := ratios[kernel].get(size)) else "–" for size in sizes]
        said = kernel.replace("|", "\\|")
        lines.append(f"| `{said}` | " + " | ".join(f"**{c}**" if c < "1" else c for c in cells) + " |")
    return lines


def _title(suite, size):
    return f"{TITLES[suite]} at {size}" if size else TITLES[suite]


def adjoint_ratios(results):
    """Sentences on the gradient's time over the function's, where both were raced."""
    times = {}
    for result in results:
        case, record = result["case"], result["tools"].get(OURS, {})
        if "time_s" in record:
            times.setdefault((case["suite"], case["size"]), {})[case["kernel"], result["mode"]] = record["time_s"]
    lines = []
    for (suite, size), found in times.items():
        both = sorted(
            (found[k, "gradient"] / found[k, "function"], k)
            for k, mode in found
            if mode == "gradient" and (k, "function") in found
        )
        if both:
            worst = ", ".join(f"{k} {r:.1f}" for r, k in both[::-1][:4])
            middle = median(r for r, _ in both)
            lines.append(f"Gradient over function, {_title(suite, size)}: median {middle:.2f}, largest: {worst}.")
    return lines


def report(results, machine):
    """Markdown of everything."""
    lines = [machine, ""]
    for (suite, size, mode), rows in groups(results):
        lines += [f"### {_title(suite, size)}: {'gradients' if mode == 'gradient' else 'functions'}", ""]
        lines += [f"* {sentence}" for sentence in summary(rows)] + ["", *table(rows), ""]
    ratios = adjoint_ratios(results)
    return lines + ([f"* {sentence}" for sentence in ratios] + [""] if ratios else [])


def add_outputs(parser):
    """Let a command line say where figures and tables go."""
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="the page whose marked section to replace")


def write_section(path, name, lines, by="bench.py"):
    """Replace the marked section `name` of a page, which the script `by` writes, or add it at the end."""
    begin, end = BEGIN.format(name=name, by=by), END.format(name=name)
    text = Path(path).read_text()
    section = "\n".join([begin, *lines, end])
    if begin in text:
        before, rest = text.split(begin, 1)
        text = before + section + rest.split(end, 1)[1]
    else:
        text = text.rstrip() + "\n\n" + section + "\n"
    Path(path).write_text(text)
