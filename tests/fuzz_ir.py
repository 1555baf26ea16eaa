"""Spoiled programs of the IR: whatever the text, reading it, verifying it and running passes on it end well.

    python tests/fuzz_ir.py read 0 1000         parse and verify, for the seeds 0 ... 999
    python tests/fuzz_ir.py run 0 1000          and then passes, and the interpreter beside native code

Reading raises nothing but ParseError, verifying nothing but VerifierError. What verifies prints and reads back; passes
and derivatives keep it sound or raise an error of the compiler; native code gives what the interpreter gives. Each
text has its seconds. A seed gives always the same text; a failure names it and the file that it
is written to. The process limits its own memory.
"""

from __future__ import annotations

import functools
import random
import re
import resource
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
from array_programs import Generator
from random_ir import random_program
from signals import raised_after

from dlvm_py.errors import DLError, ParseError, VerifierError
from dlvm_py.ir import TensorType, TupleType, print_module
from dlvm_py.ir.evaluate import poison
from dlvm_py.ir.interpreter import run as interpret
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify
from dlvm_py.tools import dlopt
from dlvm_py.tools.common import Failure
from dlvm_py.tools.native import callable_of
from dlvm_py.transforms import bufferize, ownership
from dlvm_py.transforms.pass_manager import PASSES

SECONDS = 20  # for one text; it takes thousandths
MEMORY = 4 << 30
TOKEN = re.compile(rb"""\w+|[%@'!$#?"][\w.^]*|->|[^\w\s]|\s+""")
NUMBERS = (
    b"0", b"1", b"-1", b"2", b"64", b"127", b"128", b"256", b"999999999999", b"9223372036854775807",
    b"18446744073709551616", b"1" * 30, b"9" * 5000, b"1e400", b"-0.0", b"nan", b"inf", b"-nan", b"zero", b"undefined",
    b"null", b"true",
)  # fmt: skip
WORDS = (
    b"f16", b"f32", b"f64", b"i8", b"i64", b"u64", b"bool", b"c64", b"c128", b"stack", b"void", b"_", b"x", b"*",
    b"raw", b"scheduled", b"seedable", b"from 0", b"wrt 0", b"keeping 0", b"[extern]", b"box{f32}", b"scalar",
)  # fmt: skip
DEEP = (b"(", b"*", b"<", b"[1 x ", b"{", b"box{", b"literal <", b"stack{", b"1: ", b"() -> ")


@functools.cache
def corpus() -> tuple[bytes, ...]:
    """Programs of all stages: the manual's, and random ones."""
    folder = Path(__file__).parent / "dl"
    texts = [f.read_text(encoding="utf-8") for f in sorted(folder.rglob("*.dl"))]
    texts += [str(random_program(seed, 2)) for seed in range(6)]
    for seed in range(3):
        module = Generator(seed).module
        texts.append(print_module(module))
        for stage, lower in (("compute", bufferize.run), ("scheduled", ownership.run)):
            for f in module.functions.values():
                lower(f, **({"noalias_params": False} if stage == "compute" else {}))
            module.stage = stage
            texts.append(print_module(module, locations=True))
    # comments are not worth spoiling
    return tuple(re.sub(r"//[^\n]*\n", "\n", t).encode() for t in texts)


@functools.cache
def token_lists() -> tuple[list[bytes], ...]:
    """The tokens of each text of the corpus."""
    return tuple(TOKEN.findall(t) for t in corpus())


def mutant(seed: int) -> bytes:
    """A text of the corpus, changed in a few places."""
    rng = random.Random(seed)
    text = rng.choice(corpus())
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        text = rng.choice(MUTATIONS)(rng, text)
    return text


def _span(rng: random.Random, text: bytes, longest: int) -> tuple[int, int]:
    at = rng.randrange(len(text) + 1)
    return at, min(len(text), at + rng.randrange(longest))


def _bytes(rng: random.Random, text: bytes) -> bytes:
    a, b = _span(rng, text, 4)
    return text[:a] + rng.randbytes(rng.randrange(3)) + text[b:]


def _cut(rng: random.Random, text: bytes) -> bytes:
    a, b = _span(rng, text, 40)
    return text[:a] + text[b:]


def _truncate(rng: random.Random, text: bytes) -> bytes:
    return text[: rng.randrange(len(text) + 1)] if rng.random() < 0.2 else text


def _tokens(rng: random.Random, text: bytes) -> bytes:
    parts, others = TOKEN.findall(text), rng.choice(token_lists())
    if not parts:
        return text
    k = rng.randrange(len(parts))
    match rng.randrange(4):
        case 0:
            parts[k] = rng.choice(others)
        case 1:
            parts.insert(k, rng.choice(others))
        case 2:
            n = rng.randrange(len(parts))
            parts[k], parts[n] = parts[n], parts[k]
        case 3:
            parts[k] = parts[k] * rng.choice((0, 2, 3))
    return b"".join(parts)


def _same_kind(rng: random.Random, text: bytes) -> bytes:
    """A token replaced by one that begins alike: often still a program."""
    parts = TOKEN.findall(text)
    k = rng.randrange(len(parts)) if parts else 0
    alike = [p for p in parts if p[:1] == parts[k][:1] or p.isalnum() and parts[k].isalnum()] if parts else []
    return b"".join([*parts[:k], rng.choice(alike), *parts[k + 1 :]]) if alike else text


def _lines(rng: random.Random, text: bytes) -> bytes:
    lines = text.split(b"\n")
    k, n = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            lines[k], lines[n] = lines[n], lines[k]
        case 1:
            lines.insert(k, lines[n])
        case 2:
            del lines[k]
        case 3:
            lines[k] = rng.choice(rng.choice(corpus()).split(b"\n"))
    return b"\n".join(lines)


def _splice(rng: random.Random, text: bytes) -> bytes:
    other = rng.choice(corpus())
    a, b = _span(rng, text, 200)
    start, end = _span(rng, other, 200)
    return text[:a] + other[start:end] + text[b:]


def _numbers(rng: random.Random, text: bytes) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?", text))
    if not found:
        return text
    m = rng.choice(found)
    return text[: m.start()] + rng.choice(NUMBERS) + text[m.end() :]


def _words(rng: random.Random, text: bytes) -> bytes:
    found = list(re.finditer(rb"\b[a-z]\w*\b|_", text))
    if not found:
        return text
    m = rng.choice(found)
    new = rng.choice(WORDS) if rng.random() < 0.5 else rng.choice(found)[0]
    return text[: m.start()] + new + text[m.end() :]


def _types(rng: random.Random, text: bytes) -> bytes:
    """One dtype for another everywhere: mostly a program of another dtype."""
    old, new = rng.choice(((b"f32", b"f64"), (b"f64", b"f32"), (b"f32", b"i32"), (b"i32", b"f32"), (b"f64", b"f16")))
    return text.replace(old, new)


def _deep(rng: random.Random, text: bytes) -> bytes:
    a, _ = _span(rng, text, 1)
    return text[:a] + rng.choice(DEEP) * rng.choice((3, 65, 2000, 20000)) + text[a:] if rng.random() < 0.1 else text


MUTATIONS = (
    _bytes, _cut, _truncate, _tokens, _tokens, _same_kind, _same_kind, _lines, _lines, _splice, _numbers, _numbers,
    _words, _types, _deep,
)  # fmt: skip


# -- what must hold ------------------------------------------------------------------------------------------


def time_limit(seconds: int):
    """TimeoutError where the block takes more of the processor's time: others may have the machine as well."""
    return raised_after(seconds, TimeoutError(f"more than {seconds} seconds"), signal.ITIMER_PROF)


def read(text: bytes):
    """The verified module of a text, or None where it is none. Other exceptions are the failures."""
    try:
        module = parse_module(text, "fuzz.dl")
    except ParseError as e:
        assert str(e).startswith(f"fuzz.dl:{e.loc.line}:")
        return None
    try:
        verify(module)
    except VerifierError as e:
        assert e.errors
        return None
    shown = print_module(module, locations=True)
    again = parse_module(shown)
    verify(again)
    assert print_module(again, locations=True) == shown
    return module


PIPELINES = (
    ("AS", "CSE", "DCE"), ("CFGSimp", "CFGCan"), ("INL", "SCFG", "CF", "CSE", "DCE"), ("LBP", "MMR", "LAF"),
    ("LICM", "VP", "RLE", "DCE"), ("LS", "CF", "SCFG"),
)  # fmt: skip


def transform(text: bytes, rng: random.Random) -> None:
    """Differentiate, run some passes; the IR stays sound, or the compiler says why not."""
    module = parse_module(text)
    runner = dlopt.Runner(module, lambda line: None, verify_after=True, print_after=False)
    try:
        runner.differentiate()
        for name in rng.choice(PIPELINES):
            (row,) = (p for p in PASSES.values() if p.abbreviation == name)
            runner.run(row)
            runner.after(name)
    except (DLError, Failure) as e:
        assert not isinstance(e, VerifierError), f"unsound after a pass: {getattr(e, '__notes__', '')}\n{e}"


def evaluate(text: bytes, rng: random.Random) -> int:
    """Functions of small scalars and arrays give the same in the interpreter and natively; how many were run."""
    module, ran = parse_module(text), 0
    for name, f in module.functions.items():
        if not f.blocks or not all(map(_is_small, f.type.params)) or not _is_simple(f.type.result):
            continue
        args = [_argument(t, rng) for t in f.type.params]
        try:
            with np.errstate(all="ignore"):
                expected = interpret(module, name, args, max_steps=20_000)
            raised = None
        except DLError:
            continue  # a promise of the IR is broken, or it takes too long
        except MemoryError:
            continue
        except Exception as e:
            expected, raised = None, type(e)
        try:
            run = callable_of(module, name)
        except (DLError, Failure):
            continue  # beyond the back end
        ran += 1
        try:
            found = run(*args)
        except Exception as e:
            assert raised is type(e), f"@{name}{tuple(args)}: {raised} expected, not {e!r}"
            continue
        assert raised is None, f"@{name}{tuple(args)}: {raised} expected, not {found}"
        if _was_never_written(expected):
            continue
        _compare(found, expected, f"@{name}{tuple(args)}")
    return ran


def _is_small(t) -> bool:
    return isinstance(t, TensorType) and None not in t.shape and int(np.prod(t.shape, dtype=object)) <= 5000


def _is_simple(t) -> bool:
    return all(map(_is_simple, t.elements)) if isinstance(t, TupleType) else isinstance(t, TensorType)


def _argument(t: TensorType, rng: random.Random):
    dtype = t.dtype.numpy
    make = (lambda: rng.randrange(2)) if t.dtype.kind == "b" else (lambda: rng.randrange(0, 4))
    if t.dtype.kind in "fc":
        make = lambda: rng.choice((0.5, 1.0, 2.0, rng.uniform(0.1, 3)))  # noqa: E731
    array = np.array([make() for _ in range(int(np.prod(t.shape)))]).astype(dtype).reshape(t.shape)
    return array if t.rank else array[()]


def _was_never_written(value) -> bool:
    """Whether a result has what the interpreter fills fresh memory with: natively it may be anything."""
    if isinstance(value, tuple):
        return any(map(_was_never_written, value))
    array = np.asarray(value)
    fresh = np.empty((), array.dtype)
    poison(fresh)
    return bool(np.any(np.isnan(array) if array.dtype.kind in "fc" else (array == fresh) & (array.dtype.kind in "iu")))


def _compare(found, expected, what: str) -> None:
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected), what
        for f, e in zip(found, expected, strict=True):
            _compare(f, e, what)
        return
    if expected is None:
        assert found is None, what
        return
    kind = np.asarray(expected).dtype
    tolerance = {"e": 2e-2, "f": 2e-4, "F": 2e-4}.get(kind.char, 1e-9 if kind.kind in "fc" else 0)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance, err_msg=what)


def check(seed: int, running: bool) -> tuple[bool, int]:
    """All that must hold for the text of a seed: whether it verified, and how many functions were run natively."""
    text = mutant(seed)
    with time_limit(SECONDS):
        module = read(text)
        if module is None or not running:
            return module is not None, 0
        rng = random.Random(seed)
        transform(text, rng)
        return True, evaluate(text, rng)


def main(words: list[str]) -> int:
    """What the command line says; 1 after a failure."""
    running, start, count = words[0] == "run", int(words[1]), int(words[2])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sound = ran = failed = 0
    for seed in range(start, start + count):
        print(f"\r{seed}", end="", file=sys.stderr, flush=True)
        try:
            ok, n = check(seed, running)
            sound, ran = sound + ok, ran + n
        except Exception as e:
            failed += 1
            path = Path(tempfile.gettempdir()) / f"fuzz-{seed}.dl"
            path.write_bytes(mutant(seed))
            print(f"seed {seed}, {path}: {type(e).__name__}: {str(e)[:600]}", flush=True)
    print(f"{count} texts, {sound} sound, {ran} functions run, {failed} failures")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
