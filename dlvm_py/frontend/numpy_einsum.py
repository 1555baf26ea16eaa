"""np.einsum: the contraction order is chosen when the call is compiled; pairs become products of matrices.

    parse the subscripts → per operand: diagonals, sums over labels that nothing else has → pairs in the order of least
    work → the result transposed

The work of contracting a pair is the product of the extents of all of its labels. Extents that are not known count as
_TYPICAL each, so that the number of labels decides. For up to _EXHAUSTIVE operands all orders are compared, beyond that
the cheapest pair is taken each time.

A pair with labels to sum over becomes one `dot`, its labels grouped by transposes and reshapes; with labels that stay
in both, a batched product; where one side of that would be a vector, a multiplication and a sum, which are one kernel.
"""

from __future__ import annotations

import itertools
import string
from typing import Any, NamedTuple

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.deliver import deliver, destination
from dlvm_py.frontend.elementwise import astype, operand, promoted, supported, ufunc_call
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.library import products
from dlvm_py.frontend.linear import matmul
from dlvm_py.frontend.numpy_create import array, as_casting, as_dtype
from dlvm_py.frontend.numpy_reduce import SUM
from dlvm_py.frontend.numpy_shape import diagonal, expand_dims, reshape, squeeze, transpose
from dlvm_py.frontend.values import Array, Scalar, Sequence, Static, Temp, is_none
from dlvm_py.ir import DType, Value
from dlvm_py.ir.value import integer

_TYPICAL, _EXHAUSTIVE = 32.0, 5


class _Term(NamedTuple):
    """An operand: a value, and one label an axis."""

    value: Any
    labels: str


def einsum(
    e: Emitter, subscripts: Any, *operands: Any, out: Any = None, dtype: Any = None, order: Any = None,
    casting: Any = None, optimize: Any = None,
) -> Any:  # fmt: skip
    """np.einsum with constant subscripts; `optimize` changes nothing: the order is always chosen."""
    rule = as_casting(e, casting, "safe")
    if not is_none(order) and getattr(order, "value", None) not in ("K", "A", "C"):
        e.error(UnsupportedSyntax, "np.einsum gives arrays in C order", help="np.array(np.einsum(...), order='F')")
    if not isinstance(subscripts, Static):
        subscripts, operands = _from_lists(e, (subscripts, *operands))
    if not isinstance(subscripts, Static) or not isinstance(subscripts.value, str):
        e.error(UnsupportedSyntax, "np.einsum needs its subscripts as a constant string", help=_SUBSCRIPTS)
    values = [operand(e, array(e, v) if isinstance(v, Sequence) else v, "np.einsum") for v in operands]
    inputs, output = _parse(e, subscripts.value, [_rank(v) for v in values])
    common = as_dtype(e, dtype, supported(e, promoted(*values), "np.einsum"))
    if not common.is_own:
        e.error(TypeMismatch, "invalid data type for einsum: bfloat16", help="convert with .astype(np.float32)")
    if common.kind == "b":
        e.error(UnsupportedSyntax, "np.einsum of bool arrays is not supported", help="convert with .astype(np.int64)")
    for value in values:
        if not (isinstance(value, Scalar) and value.weak):
            _check_cast(e, value.dtype, common, rule, "convert the operand with .astype")
    terms = [_Term(v if v.dtype is common else astype(e, v, common), x) for v, x in zip(values, inputs, strict=True)]
    extents = _check_extents(e, terms)
    terms = _without_ones(e, [_diagonals(e, t) for t in terms], extents)
    for i, j in _order(terms, output, extents):
        first, second = terms[i], terms[j]
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        kept = set(output).union(*(t.labels for t in rest))
        terms = [
            *rest,
            _pair(e, _summed(e, first, kept | set(second.labels)), _summed(e, second, kept | set(first.labels)), kept),
        ]
    last = _summed(e, terms[0], set(output))
    found, out = _arranged(e, last, output, extents), destination(e, out)
    if isinstance(out, Array):
        _check_cast(e, found.dtype, out.dtype, rule, "give `out` the result's dtype")
    return deliver(e, "einsum", found, out, None, rule)


def _check_cast(e: Emitter, given: DType, wanted: DType, rule: str, instead: str) -> None:
    if not np.can_cast(given.numpy, wanted.numpy, rule):  # type: ignore[arg-type]
        e.error(
            TypeMismatch,
            f"np.einsum: {given.numpy_name} cannot be cast to {wanted.numpy_name} by the rule '{rule}'",
            help=instead,
        )


def _rank(value: Any) -> int:
    return 0 if isinstance(value, Scalar) else value.rank


# -- subscripts --------------------------------------------------------------------------------------


_SUBSCRIPTS = 'np.einsum("ij,jk", a, b), or lists of constant ints: np.einsum(a, [0, 1], b, [1, 2])'


def _from_lists(e: Emitter, given: tuple[Any, ...]) -> tuple[Static, tuple[Any, ...]]:
    """The subscripts of np.einsum(a, [0, 1], b, [1, 2], [0, 2]) as a string, and the operands."""

    def text(labels: Any) -> str:
        found = [_letter(v) for v in labels.items] if isinstance(labels, Sequence) else [None]
        if None in found:
            e.error(UnsupportedSyntax, "np.einsum needs its subscripts as constants", help=_SUBSCRIPTS)
        return "".join(map(str, found))

    operands, lists = given[: len(given) // 2 * 2 : 2], given[1::2]
    right = f"->{text(given[-1])}" if len(given) % 2 else ""
    return Static(",".join(map(text, lists)) + right), operands


def _letter(label: Any) -> str | None:
    """The letter of an int, in the order of the ints; None if it has none."""
    if isinstance(label, Static) and label.value is ...:
        return "..."
    n = label.number if isinstance(label, Scalar) else None
    return string.ascii_letters.swapcase()[n] if isinstance(n, int) and 0 <= n < 52 else None


def _parse(e: Emitter, text: str, ranks: list[int]) -> tuple[list[str], str]:
    """Labels of the operands and of the result; the axes of `...` get capital letters that are not used."""
    left, arrow, right = text.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        e.error(TypeMismatch, f"einsum: {len(parts)} subscripts, but {len(ranks)} operands")
    free = [c for c in map(chr, range(0x100, 0x200)) if c not in text]
    for part in (*parts, right):
        if any(not (c.isascii() and c.isalpha()) for c in part.replace("...", "", 1)):
            e.error(TypeMismatch, f"einsum: `{part}` are no subscripts: letters, and `...` once")
    hidden = max((r - len(p.replace("...", "")) for p, r in zip(parts, ranks, strict=True) if "..." in p), default=0)
    if hidden < 0:
        e.error(TypeMismatch, "einsum: more subscripts than axes")
    names = "".join(free[:hidden])
    inputs = []
    for part, rank in zip(parts, ranks, strict=True):
        own = rank - len(part.replace("...", ""))
        labels = part.replace("...", names[len(names) - own :] if own else "")
        if len(labels) != rank:
            e.error(TypeMismatch, f"einsum: `{part}` does not fit an array of {rank} axes")
        inputs.append(labels)
    if arrow:
        output = right.replace("...", names)
        if hidden and "..." not in right:
            e.error(TypeMismatch, "einsum: `...` has axes, and is missing in the output subscripts")
    else:
        every = "".join(inputs)
        output = names + "".join(sorted(c for c in set(every) - set(names) if every.count(c) == 1))
    if len(set(output)) != len(output) or not set(output) <= set("".join(inputs)):
        e.error(TypeMismatch, f"einsum: output subscripts `{right}` repeat a letter, or have one that no operand has")
    return inputs, output


def _check_extents(e: Emitter, terms: list[_Term]) -> dict[str, Value]:
    """The extent of each label; operands must agree, or have the extent 1, known when the call is compiled."""
    found: dict[str, Value] = {}
    for term in terms:
        for label, n in zip(term.labels, getattr(term.value, "extents", ()), strict=True):
            known = found.get(label)
            if known is None or integer(known) == 1:
                found[label] = n
            elif integer(n) != 1 and not e.facts.same(n, known):
                equal = e.compare("equal", n, known)
                if getattr(equal, "value", None) is False:
                    e.error(TypeMismatch, f"einsum: the extents {integer(known)} and {integer(n)} of one label differ")
                e.check(equal, "ValueError", "operands could not be broadcast together: einsum has extents {} and {} "
                        "for one label", known, n)  # fmt: skip
                e.facts.unify(n, known)
    return found


# -- one operand -------------------------------------------------------------------------------------


def _diagonals(e: Emitter, term: _Term) -> _Term:
    """Labels that occur twice: the diagonal."""
    value, labels = term
    while len(set(labels)) != len(labels):
        label = next(c for c in labels if labels.count(c) > 1)
        i = labels.index(label)
        j = labels.index(label, i + 1)
        rest = labels[:i] + labels[i + 1 : j] + labels[j + 1 :]
        if isinstance(value, Array):  # a view, which NumPy lets be written
            equal = e.compare("equal", value.extents[i], value.extents[j])
            e.check(equal, "ValueError", "dimensions in operand for collapsing index don't match")
            view = diagonal(e, value, None, _int(i), _int(j))
            value, labels = Array(view.pointer, view.extents, value.copied), rest + label
        else:
            value, labels = e.session.library(e, products.diagonal_of, [value, _int(i), _int(j)], {}), label + rest
    return _Term(value, labels)


def _without_ones(e: Emitter, terms: list[_Term], extents: dict[str, Value]) -> list[_Term]:
    """Axes of extent 1 whose label is longer elsewhere broadcast: they go."""
    found = []
    for value, labels in terms:
        for label in labels:
            k = labels.index(label)
            if integer(value.extents[k]) == 1 and integer(extents[label]) != 1:
                value, labels = _drop_axis(e, value, k), labels[:k] + labels[k + 1 :]
        found.append(_Term(value, labels))
    return found


def _drop_axis(e: Emitter, value: Any, k: int) -> Any:
    return SUM(e, value, _int(k)) if value.rank == 1 else squeeze(e, value, _int(k))


def _summed(e: Emitter, term: _Term, kept: set[str]) -> _Term:
    """Summed over the labels that are not kept."""
    axes = [k for k, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    total = SUM(e, term.value, Sequence(tuple(map(_int, axes))), Static(term.value.dtype.numpy))
    return _Term(total, "".join(c for c in term.labels if c in kept))


def _arranged(e: Emitter, term: _Term, output: str, extents: dict[str, Value]) -> Any:
    """The axes in the order of the output."""
    value, labels = term
    if isinstance(value, Scalar):
        return value
    if labels == output:
        return Temp(value.tensor, value.extents, value.block) if isinstance(value, Temp) else value.whole()
    return transpose(e, value, Sequence(tuple(_int(labels.index(c)) for c in output)))


def _int(k: int) -> Scalar:
    return Scalar(i64(k), weak=True)


# -- the order ---------------------------------------------------------------------------------------


def _order(terms: list[_Term], output: str, extents: dict[str, Value]) -> list[tuple[int, int]]:
    """Pairs of positions; the result of each goes to the end of the list without the two."""
    size = {label: float(integer(n) or _TYPICAL) for label, n in extents.items()}
    labels = [frozenset(t.labels) for t in terms]
    if len(labels) > _EXHAUSTIVE:
        return _greedy(labels, frozenset(output), size)
    return _best(labels, frozenset(output), size)[1]


def _work(labels: frozenset[str], size: dict[str, float]) -> float:
    total = 1.0
    for label in labels:
        total *= size[label]
    return total


def _contracted(labels: list[frozenset[str]], i: int, j: int, output: frozenset[str]) -> list[frozenset[str]]:
    rest = [x for k, x in enumerate(labels) if k not in (i, j)]
    return [*rest, (labels[i] | labels[j]) & output.union(*rest)]


def _best(
    labels: list[frozenset[str]], output: frozenset[str], size: dict[str, float]
) -> tuple[float, list[tuple[int, int]]]:
    if len(labels) == 1:
        return 0.0, []
    found = []
    for i, j in itertools.combinations(range(len(labels)), 2):
        work, pairs = _best(_contracted(labels, i, j, output), output, size)
        found.append((work + _work(labels[i] | labels[j], size), [(i, j), *pairs]))
    return min(found, key=lambda f: f[0])


def _greedy(labels: list[frozenset[str]], output: frozenset[str], size: dict[str, float]) -> list[tuple[int, int]]:
    pairs = []
    while len(labels) > 1:
        i, j = min(
            itertools.combinations(range(len(labels)), 2), key=lambda p: _work(labels[p[0]] | labels[p[1]], size)
        )
        pairs.append((i, j))
        labels = _contracted(labels, i, j, output)
    return pairs


# -- a pair ------------------------------------------------------------------------------------------


def _pair(e: Emitter, a: _Term, b: _Term, kept: set[str]) -> _Term:
    """The product of two terms, summed over the labels that are not kept."""
    common = [c for c in a.labels if c in b.labels]
    batch = [c for c in common if c in kept]
    inner = [c for c in common if c not in kept]
    left = [c for c in a.labels if c not in common]
    right = [c for c in b.labels if c not in common]
    if not inner or (batch and not (left and right)):
        return _multiplied(e, a, b, batch, left, right, inner)
    first = _grouped(e, a, batch, left, inner)
    second = _grouped(e, b, batch, inner, right)
    found = matmul(e, first, second)
    labels = "".join((*batch, *left, *right))
    if isinstance(found, Scalar):
        return _Term(found, labels)
    of = dict(zip(a.labels, a.value.extents, strict=True)) | dict(zip(b.labels, b.value.extents, strict=True))
    if len(left) > 1 or len(right) > 1:
        found = reshape(e, found, Sequence(tuple(Scalar(of[c], weak=True) for c in labels)))
    return _Term(found, labels)


def _grouped(e: Emitter, term: _Term, batch: list[str], rows: list[str], columns: list[str]) -> Any:
    """The term with its axes as batch..., rows, columns; a group without labels is left out, of many is one axis."""
    order = [*batch, *rows, *columns]
    extents = dict(zip(term.labels, term.value.extents, strict=True))
    value = term.value
    if order != list(term.labels):
        value = transpose(e, value, Sequence(tuple(_int(term.labels.index(c)) for c in order)))
    groups = [[c] for c in batch] + [g for g in (rows, columns) if g]
    if len(groups) == len(order):
        return value
    sizes = [e.product(tuple(extents[c] for c in group)) for group in groups]
    return reshape(e, value, Sequence(tuple(Scalar(n, weak=True) for n in sizes)))


def _multiplied(
    e: Emitter, a: _Term, b: _Term, batch: list[str], left: list[str], right: list[str], inner: list[str]
) -> _Term:
    """The product element by element over all labels, then the sum."""
    order = [*batch, *left, *right, *inner]
    product = ufunc_call(e, np.multiply, *(_spread(e, t, order) for t in (a, b)))
    return _summed(e, _Term(product, "".join(order)), set(order) - set(inner))


def _spread(e: Emitter, term: _Term, order: list[str]) -> Any:
    """The term with its axes in `order`, those that it lacks of extent 1."""
    value, own = term.value, [c for c in order if c in term.labels]
    if isinstance(value, Scalar):
        return value
    if own != list(term.labels):
        value = transpose(e, value, Sequence(tuple(_int(term.labels.index(c)) for c in own)))
    for k, label in enumerate(order):
        if label not in own:
            value = expand_dims(e, value, _int(k))
    return value


EINSUM: dict[Any, Any] = {np.einsum: einsum}
