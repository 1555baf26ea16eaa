"""Random loops over pixels: Python's integers made of small ones, at the ends of their ranges, against plain Python.

What narrow_integers.py computes with 16 or 32 bits, and bounded_sums.py without asking for overflow: the numbers are
the least and the largest of their dtypes, and the literals lie on both sides of what fits.
"""

import importlib.util
import random

import numpy as np
import pytest
from plain_code import translated_only

import dlvm_py as dlvm

DTYPES = ("u1", "i1", "u2", "i2", "?")
LITERALS = (0, 1, 2, 3, 7, 10, 127, 128, 255, 256, 32767, 32768, 65535, -1, -128, -32768, 2**31 - 1, 2**31, -(2**31))
BINARY = ("({} + {})", "({} - {})", "({} * {})", "min({}, {})", "max({}, {})", "({} & {})", "({} | {})", "({} ^ {})")
UNARY = ("abs({})", "(-{})", "({} // 7)", "({} % 10)", "({} % 65537)", "({} << 4)", "({} >> 15)", "({} ** 2)")
MASKS = {"u1": "255", "i1": "127", "u2": "65535", "i2": "32767", "i4": "2147483647", "i8": "-1"}


class PixelWriter:
    """The source of one function of a, b, out and k, and the dtypes of the arrays."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.dtypes = [self.r.choice(DTYPES) for _ in "ab"]
        self.out = self.r.choice(list(MASKS))
        self.names: list[str] = []

    def value(self, depth: int) -> str:
        r = self.r
        if depth == 0 or r.random() < 0.15:
            apart = r.choice(("j", "j", "j + 1", "j - 1"))
            pixels = [f"int({name}[i, {apart}])" for name in "ab"]
            return r.choice((*pixels, *pixels, *self.names, "k", "j", str(r.choice(LITERALS))))
        if r.random() < 0.15:
            how = f"({{}} if {{}} {r.choice(('<', '>=', '=='))} {{}} else {{}})"
        else:
            how = r.choice((*BINARY, *BINARY[:3], *UNARY))
        return how.format(*(self.value(depth - 1) for _ in range(how.count("{}"))))

    def source(self) -> str:
        r, lines = self.r, ["def f(a, b, out, k):", "    s = 0", "    t = k", "    for i in range(a.shape[0]):"]
        lines.append("        for j in range(1, a.shape[1] - 1):")
        for name in ("v", "w"):
            if r.random() < 0.4:
                lines += [f"            {name} = {self.value(1)}", f"            if {self.value(1)} > {self.value(1)}:"]
                lines += [f"                {name} = {self.value(3)}"]
            else:
                lines += [f"            {name} = {self.value(3)}"]
            self.names.append(name)
        lines.append(f"            out[i, j] = ({self.value(2)}) & {MASKS[self.out]}")
        lines.append(f"            s {r.choice(('+=', '-='))} {self.value(1)}")
        if r.random() < 0.5:
            lines.append(f"            if {self.value(1)} < {self.value(1)}:")
            lines.append(f"                t += abs({self.value(1)})")
        return "\n".join([*lines, "    return s, t", ""])


def ends(rng, dtype, shape):
    """Numbers at the ends of a dtype, and between."""
    if dtype == "?":
        return rng.integers(0, 2, shape).astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.where(rng.random(shape) < 0.7, rng.choice([low, low + 1, 0, 1, high - 1, high], shape),
                    rng.integers(low, high, shape, endpoint=True)).astype(dtype)  # fmt: skip


def outcome(fn, args):
    try:
        return fn(*args)
    except OverflowError as error:
        return type(error)


def check(seed, folder):
    """Calls with arrays of several shapes; how many of them have fitted into 64 bits."""
    writer = PixelWriter(seed)
    path = folder / f"pixels_{seed}.py"
    source = writer.source()
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng, fitting = np.random.default_rng(seed), 0
    with translated_only():
        compiled = dlvm.jit(module.f, cache=False)
        for shape in ((3, 9), (5, 34), (1, 2), (0, 3), (2, 67)):
            a, b = (ends(rng, dtype, shape) for dtype in writer.dtypes)
            k = int(rng.choice([0, -5, 300, 2**31, -(2**40)]))
            ours, theirs = np.zeros(shape, writer.out), np.zeros(shape, writer.out)
            got, want = outcome(compiled, (a, b, ours, k)), outcome(module.f, (a, b, theirs, k))
            if got is OverflowError:
                continue  # a number between has more than 64 bits
            assert got == want, f"seed {seed}\n{source}"
            np.testing.assert_array_equal(ours, theirs, f"seed {seed}\n{source}")
            fitting += 1
    return fitting


@pytest.mark.parametrize("chunk", range(2))
def test_random_pixels(chunk, tmp_path):
    """A few programs."""
    assert sum(check(seed, tmp_path) for seed in range(3 * chunk, 3 * chunk + 3)) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_random_pixels_slow(chunk, tmp_path):
    """Ten at a time."""
    for seed in range(1000 + 10 * chunk, 1010 + 10 * chunk):
        check(seed, tmp_path)
