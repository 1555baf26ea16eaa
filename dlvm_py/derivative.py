"""From a Gradient recipe to the adjoint pass: which IR parameters and outputs, and how the results look.

The adjoint pass knows parameters and result leaves by number. Here the user's words (positions, names,
nested tuples) become those numbers, and the numbers of the result become the structure that the user
expects: derivatives in the structure of the argument (None for integer leaves), then kept outputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from dlvm_py.deferred import deferred
from dlvm_py.errors import ArgumentError, InternalError, NotDifferentiable
from dlvm_py.frozen import Mutable, replace
from dlvm_py.ir import (
    VOID,
    BlockArg,
    Builder,
    Function,
    Instruction,
    PointerType,
    TensorType,
    TupleType,
    Type,
    Value,
    literal,
)
from dlvm_py.ir.analysis.calls import written_params
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    EitherSpec,
    GeneratorSpec,
    GrowingSpec,
    ListSpec,
    Pairs,
    RecordShape,
    RecordSpec,
    ScalarSpec,
    Spec,
    TableSpec,
    TupleSpec,
    dtype_of_leaf,
    leaves,
)
from dlvm_py.program import Program
from dlvm_py.recipe import Gradient, Jacobian, OutputName, Pullback, Recording, Tangent
from dlvm_py.runtime.trees import walk
from dlvm_py.transforms.differentiate.adjoint import adjoint, recorded
from dlvm_py.transforms.differentiate.config import AdjointConfig, Output

if TYPE_CHECKING:
    from dlvm_py.ir import printer
    from dlvm_py.transforms.differentiate import jacobian as jacobians
    from dlvm_py.transforms.differentiate import tangent as forward
else:
    printer = deferred("dlvm_py.ir.printer")
    # what reverse mode does without
    jacobians, forward = (deferred(f"dlvm_py.transforms.differentiate.{name}") for name in ("jacobian", "tangent"))


def derive(
    of: Program,
    recipe: Gradient,
    seeds: tuple[Spec, ...],
    checkpoint: str | int = "store",
    shared: frozenset[int] = frozenset(),
) -> Program:
    """The program of `recipe` from the program `of` that it differentiates; the rest as the adjoint pass takes it.

    Raises: ArgumentError DL702 for an integer `wrt`, DL703 for an output that must be named or does not
    exist, DL704 for a seed that does not fit; NotDifferentiable DL612 for a complex output
    without seed, and for what the adjoint pass refuses.
    """
    offsets = _offsets(of.args)
    wrt = [(position, of.args[position]) for position in recipe.wrt]
    indices = [i for position, spec in wrt for i in _float_leaves(of, position, spec, offsets[position])]
    if not _returns(of):
        return _always_raises(of, recipe, seeds)
    found = [_resolve(of, source, offsets) for source in _sources(of, recipe)]
    sources = [leaf for _, some in found for leaf in some]
    active = [(output, spec) for output, spec in sources if dtype_of_leaf(spec).is_inexact]
    if not active:
        raise NotDifferentiable(
            f"the output of {_title(of)} that is differentiated is an integer or bool",
            code="DL703",
            help="return a float",
        )
    if not recipe.seedable and any(dtype_of_leaf(spec).is_complex for _, spec in active):
        raise NotDifferentiable(
            f"the output of {_title(of)} that is differentiated is complex: its derivative needs a seed",
            code="DL612",
            help="dlvm.grad(f, seedable=True) takes one: df = Re(conj(g) dx) for the output Re(conj(seed) y)",
        )
    kept = [_resolve(of, name, offsets) for name in _keeping(recipe)]
    kept_leaves = [leaf for _, found in kept for leaf in found]

    unique = list(dict.fromkeys(indices))
    config = AdjointConfig(
        wrt=tuple(unique),
        outputs=tuple(output for output, _ in active),
        keeping=tuple(output for output, _ in kept_leaves),
        seedable=recipe.seedable,
        checkpoint=checkpoint,
        shared=shared,
    )
    copied = set(written_params(of.module, of.name))
    function = adjoint(of.module, of.name, config)
    if recipe.seedable:
        if any(map(_has_either, (spec for spec, _ in found))):
            _refuse_either("seed")
        rule = "the seed must look like what is differentiated"
        _fit_seeds(function, _behind(of, shared), [spec for _, spec in active], seeds, rule)

    derivatives = [
        found for k, spec in wrt for found in _gradient_leaves(spec, offsets[k], unique, function.entry.args)
    ]
    values = [len(unique) + k for k in range(len(kept_leaves))]
    if recipe.value_first:
        first = len(kept[0][1])
        _order_results(function, values[:first] + derivatives + values[first:])
    else:
        _order_results(function, derivatives + values)

    structures = tuple(_gradient_structure(spec) for _, spec in wrt)
    gradients: Spec = structures[0] if recipe.single else TupleSpec(structures)
    result: Spec
    if recipe.value_first:
        result = TupleSpec((kept[0][0], gradients, *(spec for spec, _ in kept[1:])))
    elif kept:
        result = TupleSpec((*structures, *(spec for spec, _ in kept)))
    else:
        result = gradients
    names = tuple(recipe.signature().parameters)
    return Program(
        of.module, function.name, names, (*of.args, *seeds), of.captured, result, **_sharing(of, copied, seeds)
    )


def push_forward(
    of: Program, recipe: Tangent, tangents: tuple[Spec, ...], shared: frozenset[int] = frozenset()
) -> Program:
    """The program of a forward-mode derivative: (value, tangent of the value). `shared` as the tangent pass takes it.

    Raises: ArgumentError DL702 for a tangent of an integer, DL703 for an output that must be named or does not exist,
    DL704 for a tangent that does not fit its argument; NotDifferentiable for what the tangent pass refuses.
    """
    offsets = _offsets(of.args)
    wrt = [i for k in recipe.wrt for i in _float_leaves(of, k, of.args[k], offsets[k])]
    if len(set(wrt)) != len(wrt):
        raise ArgumentError("an argument has two tangents: name it once", code="DL701")
    names = tuple(recipe.signature().parameters)
    outputs = [_resolve(of, name, offsets) for name in _outputs(of, recipe)]
    found = [leaf for _, some in outputs for leaf in some]
    active = [(output, spec) for output, spec in found if dtype_of_leaf(spec).is_inexact]
    if not active:
        raise NotDifferentiable(
            f"the output of {_title(of)} is an integer or bool", code="DL703", help="return a float"
        )
    copied = set(written_params(of.module, of.name))
    kept = tuple(o for o, _ in found) if recipe.with_value else ()
    config = forward.TangentConfig(tuple(wrt), tuple(o for o, _ in active), kept, shared)
    function = forward.tangent(of.module, of.name, config)
    plain = [leaf for spec in of.args for leaf in leaves(spec)]
    rule = "a tangent must look like its argument"
    _fit_seeds(function, _behind(of, shared), [plain[i] for i in wrt], tangents, rule)  # type: ignore[misc]
    values = [len(active) + k for k in range(len(kept))]
    _order_results(function, values + list(range(len(active))))
    specs = tuple(spec for spec, _ in outputs)
    value = specs[0] if len(specs) == 1 else TupleSpec(specs)
    moved = _tangent_structure(value)
    result = TupleSpec((value, moved)) if recipe.with_value else moved
    return Program(
        of.module, function.name, names, (*of.args, *tangents), of.captured, result, **_sharing(of, copied, tangents)
    )


def _behind(of: Program, shared: frozenset[int]) -> int:
    """How many parameters stand behind seeds and tangents: captured arrays, and the shadows of what is shared."""
    plain = [*(leaf for spec in of.args for leaf in leaves(spec)), *of.captured]
    return len(of.captured) + sum(dtype_of_leaf(plain[k]).is_inexact for k in shared)  # type: ignore[arg-type]


def record(of: Program, recipe: Recording, _: tuple[Spec, ...]) -> Program:
    """The program of the first half of a vjp: (value, tape, digest).

    Raises: ArgumentError DL702 for a `wrt` without floats, DL703 for an output that must be named or does not exist;
    NotDifferentiable for what the adjoint pass refuses.
    """
    if not _returns(of):
        return _always_raises(of, recipe, ())
    halves = _halves(of, recipe)
    kept = [spec for spec, _ in halves.outputs]
    value = kept[0] if len(kept) == 1 else TupleSpec(tuple(kept))
    tape = TupleSpec(tuple(_tape_spec(t) for t in halves.tape))
    function = halves.recorded
    _order_results(function, list(range(len(leaves(value)) + len(halves.tape))))
    result = TupleSpec((value, tape, ConstantSpec(halves.digest)))
    sharing = _sharing(of, halves.copied, ())
    return Program(of.module, function.name, of.parameter_names, of.args, of.captured, result, **sharing)


def pull_back(of: Program, recipe: Pullback, given: tuple[Spec, ...]) -> Program:
    """The program of the second half: (tape, seed) -> derivatives.

    Raises: ArgumentError DL704 for a seed that does not look like the value; InternalError where the first half, which
    has run, was another one than is made now.
    """
    halves = _halves(of, recipe.of)
    if halves.digest != recipe.digest:
        raise InternalError(f"the tape of {_title(of)} was recorded by code that differs from what is made of it now")
    tape, seed = given
    kept = [spec for spec, _ in halves.outputs]
    value = kept[0] if len(kept) == 1 else TupleSpec(tuple(kept))
    rule = "the seed must look like the value"
    _check_seed(value, seed, rule)
    function = halves.pullback
    formal = [_tape_spec(t) for t in halves.tape] + [s for s in leaves(value) if dtype_of_leaf(s).is_inexact]
    _fit_seeds(function, 0, formal, (tape, seed), rule)
    _order_results(function, halves.derivatives)
    structures = tuple(_gradient_structure(of.args[k]) for k in recipe.of.wrt)
    result = structures[0] if recipe.of.single else TupleSpec(structures)
    free = tuple(range(len(function.params)))
    names = tuple(recipe.signature().parameters)
    return Program(of.module, function.name, names, given, (), result, free=free)


class _Halves(Mutable):
    """What both programs of a vjp rest on. outputs: as `_resolve` gives them; derivatives: results of the pullback."""

    recorded: Function
    pullback: Function
    tape: list[Type]
    outputs: list[tuple[Spec, list[tuple[Output, ScalarSpec | ArraySpec]]]]
    derivatives: list[int]
    copied: set[int]
    digest: str


def _halves(of: Program, recipe: Recording) -> _Halves:
    offsets = _offsets(of.args)
    found: list[int] = []
    for k in recipe.wrt:
        if any(isinstance(s, TableSpec) and _differentiable(s) for s in walk((of.args[k],))):
            raise NotDifferentiable(
                f"'{of.parameter_names[k]}' is or holds a dict with numbers as keys: vjp does not give its derivative",
                code="DL611",
                help="use dlvm.grad, or name other parameters in wrt",
            )
        floats = any(dtype_of_leaf(s).is_inexact for s in leaves(of.args[k]))
        if floats or not recipe.every:
            found += _float_leaves(of, k, of.args[k], offsets[k])
    if not found:
        raise ArgumentError(
            f"no argument of {_title(of)} is a float: there is nothing to differentiate with respect to", code="DL702"
        )
    outputs = [_resolve(of, name, offsets) for name in _outputs(of, recipe)]
    parts = [leaf for _, some in outputs for leaf in some]
    active = [output for output, spec in parts if dtype_of_leaf(spec).is_inexact]
    if not active:
        raise NotDifferentiable(
            f"the output of {_title(of)} is an integer or bool", code="DL703", help="return a float"
        )
    unique = list(dict.fromkeys(found))
    copied = set(written_params(of.module, of.name))
    config = AdjointConfig(tuple(unique), tuple(active), tuple(output for output, _ in parts), seedable=True)
    halves = recorded(of.module, of.name, config)
    text = printer.print_function(halves.recorded) + printer.print_function(halves.pullback)
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    derivatives = [unique.index(i) for i in found]
    return _Halves(halves.recorded, halves.pullback, halves.tape, outputs, derivatives, copied, digest)


def _returns(of: Program) -> bool:
    return any(b.terminator and b.terminator.op.name == "return" for b in of.function.blocks)


def _tape_spec(t: Type) -> ScalarSpec | ArraySpec:
    if isinstance(t, PointerType):
        return ArraySpec(t.dtype.name, (False,) * t.rank)
    assert isinstance(t, TensorType)
    return ScalarSpec(t.dtype.name, t.dtype.name in ("bool", "i64", "f64", "c128"))


def _check_seed(value: Spec, seed: Spec, rule: str) -> None:
    """DL704 unless a seed has the structure of the value, with None where that is no float."""
    if isinstance(value, TupleSpec | RecordSpec):
        fits = isinstance(seed, type(value)) and len(seed.items) == len(value.items)
        if fits and isinstance(value, RecordSpec):
            fits = value.kind is seed.kind and value.names == seed.names  # type: ignore[union-attr]
        if fits:
            for v, s in zip(value.items, seed.items, strict=True):  # type: ignore[union-attr]
                _check_seed(v, s, rule)
            return
    elif isinstance(value, ScalarSpec | ArraySpec) and dtype_of_leaf(value).is_inexact:
        if isinstance(seed, ScalarSpec | ArraySpec) and _seeds(seed, value):
            return
    elif isinstance(value, EitherSpec):
        _refuse_either("seed")
    elif isinstance(value, GrowingSpec):
        raise NotDifferentiable("a list of computed length has no seed", code="DL611", help="return np.array(list)")
    elif isinstance(seed, ConstantSpec) and seed.value is None:
        return
    wanted = _described(value)
    if not any(dtype_of_leaf(leaf).is_inexact for leaf in leaves(value)):
        wanted = f"None for {wanted}, which has no derivative"
    raise ArgumentError(f"{rule}: {wanted}, not {_described(seed)}", code="DL704")


def _outputs(of: Program, recipe: Tangent | Jacobian | Recording) -> tuple[OutputName | None, ...]:
    """The outputs that a recipe asks for, the default resolved; None stands for the whole result."""
    if recipe.sources is not None:
        return recipe.sources
    if isinstance(of.result, ConstantSpec):
        return _sources(of, Gradient(recipe.of, recipe.wrt, True, None, (), False))
    return (None,)


def all_partials(of: Program, recipe: Jacobian, _: tuple[Spec, ...], checkpoint: str | int = "store") -> Program:
    """The program of a Jacobian; `checkpoint` as the adjoint pass takes it.

    Raises: ArgumentError DL702 for an integer `wrt` or one that is no number or array, DL703 for an output that must be
    named or does not exist; NotDifferentiable for what the passes refuse.
    """
    offsets = _offsets(of.args)
    for k in recipe.wrt:
        _float_leaves(of, k, of.args[k], offsets[k])
        spec = of.args[k]
        if not isinstance(spec, ScalarSpec | ArraySpec):
            raise ArgumentError(
                f"'{of.parameter_names[k]}' is {_described(spec)}: a Jacobian needs a number or an array",
                code="DL702",
                help="take the parts as parameters of their own",
            )
        if dtype_of_leaf(spec).is_complex:
            raise ArgumentError(
                f"'{of.parameter_names[k]}' is complex: Jacobians of complex functions are not supported", code="DL702"
            )
    outputs = [_resolve(of, name, offsets) for name in _outputs(of, recipe)]
    found = [(output, spec) for _, some in outputs for output, spec in some if dtype_of_leaf(spec).is_float]
    if not found:
        raise NotDifferentiable(f"the output of {_title(of)} is no float", code="DL703", help="return a float")
    copied = set(written_params(of.module, of.name))
    wrt = tuple(offsets[k] for k in recipe.wrt)
    function = jacobians.jacobian(of.module, of.name, wrt, tuple(o for o, _ in found), recipe.mode, checkpoint)
    specs = tuple(_jacobian_structure(spec, of, recipe) for spec, _ in outputs)
    result = specs[0] if len(specs) == 1 else TupleSpec(specs)
    sharing = _sharing(of, copied, ())
    return Program(of.module, function.name, of.parameter_names, of.args, of.captured, result, **sharing)


def _jacobian_structure(spec: Spec, of: Program, recipe: Jacobian) -> Spec:
    if isinstance(spec, TupleSpec):
        return TupleSpec(tuple(_jacobian_structure(i, of, recipe) for i in spec.items))
    if isinstance(spec, RecordSpec):
        return replace(spec, items=tuple(_jacobian_structure(i, of, recipe) for i in spec.items))
    if isinstance(spec, EitherSpec):
        _refuse_either("Jacobian")
    if isinstance(spec, GrowingSpec):
        raise NotDifferentiable(
            "a list of computed length has no Jacobian", code="DL703", help="return np.array of the list"
        )
    if not isinstance(spec, ScalarSpec | ArraySpec) or not dtype_of_leaf(spec).is_float:
        return ConstantSpec(None)
    parts: list[Spec] = []
    for k in recipe.wrt:
        argument = of.args[k]
        assert isinstance(argument, ScalarSpec | ArraySpec)
        ones = [s.ones for s in (spec, argument) if isinstance(s, ArraySpec)]
        if ones:
            parts.append(ArraySpec(argument.dtype, tuple(one for some in ones for one in some), "C"))
        else:
            parts.append(argument)
    return parts[0] if recipe.single else TupleSpec(tuple(parts))


def _tangent_structure(spec: Spec) -> Spec:
    """How the tangent of a value of this spec looks: None for what has none."""
    if isinstance(spec, TupleSpec):
        return TupleSpec(tuple(_tangent_structure(i) for i in spec.items))
    if isinstance(spec, RecordSpec):
        return replace(spec, items=tuple(_tangent_structure(i) for i in spec.items))
    if isinstance(spec, GrowingSpec):
        kinds = {dtype_of_leaf(column).is_inexact for column in spec.columns}
        if kinds == {True, False}:
            raise NotDifferentiable(
                "a list of computed length whose items hold floats and integers has no tangent",
                code="DL703",
                help="return lists of their own, or arrays",
            )
        return spec if kinds == {True} else ConstantSpec(None)
    if isinstance(spec, EitherSpec):
        _refuse_either("tangent")
    if isinstance(spec, ScalarSpec | ArraySpec) and dtype_of_leaf(spec).is_inexact:
        return spec
    return ConstantSpec(None)


def _has_either(spec: Spec) -> bool:
    return isinstance(spec, EitherSpec) or (
        isinstance(spec, TupleSpec | RecordSpec) and any(map(_has_either, spec.items))
    )


def _refuse_either(what: str) -> NoReturn:
    raise NotDifferentiable(
        f"a result of different kinds on different paths, a number here and an array there, has no {what}",
        code="DL703",
        help="give both paths values of one type; dlvm.grad and dlvm.value_and_grad take such functions",
    )


def _sharing(of: Program, copied: set[int], new: tuple[Spec, ...]) -> dict[str, tuple[int, ...]]:
    """The fields `unshared` (what the primal writes, too) and `free` (what is new, too); captured arrays stand last."""
    plain = sum(len(leaves(spec)) for spec in of.args)
    added = sum(len(leaves(spec)) for spec in new)
    moved = lambda found: tuple(i if i < plain else i + added for i in sorted(found))  # noqa: E731
    return {
        "unshared": moved(copied.union(of.unshared)),
        "free": (*moved(of.free), *range(plain, plain + added)),
    }


def _always_raises(of: Program, recipe: Gradient | Recording, seeds: tuple[Spec, ...]) -> Program:
    """The gradient of a function that raises whatever happens, for these types: it raises the same."""
    function = adjoint(of.module, of.name, AdjointConfig(wrt=(), outputs=()))
    function.result = VOID
    at = len(function.params) - len(of.captured)
    for spec in (leaf for seed in seeds for leaf in leaves(seed)):
        function.entry.args.insert(at, BlockArg(spec.ir_type(), function.entry, "seed"))
        at += 1
    names = tuple(recipe.signature().parameters)
    return Program(of.module, function.name, names, (*of.args, *seeds), of.captured, ConstantSpec(None))


def _title(of: Program) -> str:
    return f"'{of.name}'"


def _offsets(args: tuple[Spec, ...]) -> list[int]:
    offsets, n = [], 0
    for spec in args:
        offsets.append(n)
        n += len(leaves(spec))
    return offsets


def _float_leaves(of: Program, position: int, spec: Spec, offset: int) -> list[int]:
    name = of.parameter_names[position]
    found = [offset + k for k in _differentiable(spec)]
    if not found:
        advice = {
            ScalarSpec: f"pass a float: float({name})",
            ArraySpec: f"pass an array of floats: {name}.astype(float)",
        }
        raise ArgumentError(
            f"cannot differentiate with respect to '{name}': it is {_described(spec)}, which carries no derivative",
            code="DL702",
            help=advice.get(type(spec), "wrt names parameters that get floats"),
        )
    return found


def _differentiable(spec: Spec) -> list[int]:
    """The leaves of an argument that are floats, by their numbers; the keys of a dict are none."""
    if isinstance(spec, TableSpec):
        return [len(spec.keys)] if dtype_of_leaf(spec.value).is_inexact else []
    found, start = [], 0
    for item in spec.items if isinstance(spec, TupleSpec | RecordSpec) else ():
        found += [start + k for k in _differentiable(item)]
        start += len(leaves(item))
    if not isinstance(spec, TupleSpec | RecordSpec):
        return [k for k, leaf in enumerate(leaves(spec)) if dtype_of_leaf(leaf).is_inexact]
    return found


def _written(of: Program) -> list[int]:
    n = sum(len(leaves(spec)) for spec in of.args)
    return [i for i in sorted(written_params(of.module, of.name)) if i < n]


def _written_names(of: Program) -> list[str]:
    offsets = _offsets(of.args)
    names = [of.parameter_names[position] for position, _ in of.finals]
    for i in _written(of):
        position = max(k for k, o in enumerate(offsets) if o <= i and leaves(of.args[k]))
        if of.parameter_names[position] not in names:
            names.append(of.parameter_names[position])
    return names


def _sources(of: Program, recipe: Gradient) -> tuple[OutputName, ...]:
    """The outputs that are differentiated, the default resolved; () stands for the whole result."""
    if recipe.sources is not None:
        return recipe.sources
    if leaves(of.result) or not isinstance(of.result, ConstantSpec):
        return (0,)
    written = _written_names(of)
    if len(written) == 1:
        return (written[0],)
    if not written:
        raise ArgumentError(
            f"{_title(of)} returns None and writes no argument: there is nothing to differentiate", code="DL703"
        )
    raise ArgumentError(
        f"{_title(of)} returns None and writes several arguments: say which one to differentiate",
        code="DL703",
        help="from_= one of " + ", ".join(repr(n) for n in written) + ", or a tuple of them",
    )


def _keeping(recipe: Gradient) -> tuple[OutputName | None, ...]:
    # the value of value_and_grad is the whole result (None here), whatever element is differentiated
    return (None, *recipe.keeping) if recipe.value_first else recipe.keeping


def _resolve(
    of: Program, name: OutputName | None, offsets: list[int]
) -> tuple[Spec, list[tuple[Output, ScalarSpec | ArraySpec]]]:
    """The spec of an output and, a leaf, its number for the adjoint pass."""
    if isinstance(name, str):
        position = of.parameter_names.index(name)
        start = len(leaves(of.result))
        for changed, final in of.finals:
            if changed == position:
                return final, [(Output("result", start + k), leaf) for k, leaf in enumerate(leaves(final))]
            start += len(leaves(final))
        spec = of.args[position]
        start = offsets[position]
        written = set(_written(of))
        found = [(Output("param", start + k), leaf) for k, leaf in enumerate(leaves(spec))]
        if not any(start + k in written for k in range(len(found))):
            raise ArgumentError(
                f"'{name}' is no output of {_title(of)}: the function does not write it",
                code="DL703",
                help="the arguments that it writes: " + (", ".join(_written_names(of)) or "none"),
            )
        return spec, found
    result = of.result
    if isinstance(result, RecordSpec) and (result.kind is list or issubclass(result.kind, tuple)) and name is not None:
        result = TupleSpec(result.items)
    if name is None or not isinstance(result, TupleSpec):
        if name not in (None, 0, -1):
            raise ArgumentError(f"{_title(of)} returns no tuple: its one result is number 0, not {name}", code="DL703")
        return result, [(Output("result", k), leaf) for k, leaf in enumerate(leaves(result))]
    if not -len(result.items) <= name < len(result.items):
        raise ArgumentError(f"{_title(of)} returns {len(result.items)} values: there is no number {name}", code="DL703")
    name %= len(result.items)
    start = sum(len(leaves(item)) for item in result.items[:name])
    item = result.items[name]
    return item, [(Output("result", start + k), leaf) for k, leaf in enumerate(leaves(item))]


def _gradient_structure(spec: Spec) -> Spec:
    """How the derivative with respect to an argument of this spec looks."""
    match spec:
        case TupleSpec(items):
            return TupleSpec(tuple(_gradient_structure(i) for i in items))
        case RecordSpec(kind, names, items):
            return RecordSpec(kind, names, tuple(_gradient_structure(i) for i in items))
        case ListSpec(item) if dtype_of_leaf(item).is_inexact:
            return GrowingSpec((spec.leaf,), "weak")
        case TableSpec(keys, is_tuple, value) if dtype_of_leaf(value).is_inexact:
            shapes = tuple("weak" if s.weak else "scalar" for s in (*keys, value))
            key = RecordShape(tuple, shapes[:-1]) if is_tuple else shapes[0]
            columns = GrowingSpec(spec.columns[:-1], key), GrowingSpec(spec.columns[-1:], shapes[-1])
            return RecordSpec(Pairs, ("keys", "values"), columns)
        case ArraySpec(dtype, ones, _) if dtype_of_leaf(spec).is_inexact:
            return ArraySpec(dtype, ones, "C")
        case ScalarSpec() if dtype_of_leaf(spec).is_inexact:
            return spec
    return ConstantSpec(None)


def _gradient_leaves(spec: Spec, offset: int, unique: list[int], params: list[BlockArg]) -> list[int | Value]:
    """The leaves of a `_gradient_structure`: results of the adjoint by their numbers, and the keys of dicts, given.

    offset: of the spec among the leaves of the arguments. unique: those that have derivatives.
    """
    if isinstance(spec, TableSpec):
        end = offset + len(spec.keys)
        return [*params[offset:end], unique.index(end)] if _differentiable(spec) else []
    if not isinstance(spec, TupleSpec | RecordSpec):
        return [unique.index(offset + k) for k in _differentiable(spec)]
    found: list[int | Value] = []
    for item in spec.items:
        found += _gradient_leaves(item, offset, unique, params)
        offset += len(leaves(item))
    return found


def _copy(b: Builder, value: Value) -> Value:
    """An array of its own with the contents of another one; a scalar as it is."""
    if not isinstance(value.type, PointerType):
        return value
    extents = [literal(n) if n is not None else b.emit("extent", value, at=k) for k, n in enumerate(value.type.shape)]
    copy = b.emit("allocateHeap", *extents, dtype=value.type.dtype.name)
    b.emit("store", b.emit("load", value), copy)
    return copy


def _order_results(function: Function, order: Sequence[int | Value]) -> None:
    """Reorder the leaves of every return; one that is asked for again is copied, and what is no number, a parameter."""
    for block in function.blocks:
        end = block.terminator
        if end is None or end.op.name != "return":
            continue
        value = end.operands[0]
        if isinstance(value, Instruction) and value.op.name == "tuple":
            parts: list[Value] = list(value.operands)
        else:
            parts = [value]
        if order == list(range(len(parts))):
            return
        b = Builder(function)
        b.before(end)
        new = [
            _copy(b, i) if isinstance(i, Value) else _copy(b, parts[i]) if i in order[:k] else parts[i]
            for k, i in enumerate(order)
        ]
        end.operands = [b.emit("tuple", *new) if len(new) > 1 else new[0]]
        function.result = end.operands[0].type


def _seeds(given: ScalarSpec | ArraySpec, output: ScalarSpec | ArraySpec) -> bool:
    """Whether a value can seed an output, as far as types tell; extents are checked when the gradient runs."""
    if isinstance(given, ScalarSpec):
        is_one = isinstance(output, ScalarSpec) or not output.rank  # a number does for an array without axes
        return is_one and np.can_cast(dtype_of_leaf(given).numpy, dtype_of_leaf(output).numpy, "same_kind")
    if isinstance(output, ScalarSpec):
        return False
    return given.dtype == output.dtype and given.rank == output.rank


def _described(spec: Spec) -> str:
    match spec:
        case GeneratorSpec():
            return "a generator of random numbers"
        case ScalarSpec():
            return f"a number of dtype {dtype_of_leaf(spec).numpy}"
        case ArraySpec():
            return f"an array of dtype {dtype_of_leaf(spec).numpy} with {spec.rank} dimension{'s' * (spec.rank != 1)}"
        case TupleSpec(items):
            return f"a tuple ({', '.join(map(_described, items))})"
        case RecordSpec(kind, _, items):
            return f"a {kind.__name__} ({', '.join(map(_described, items))})"
        case GrowingSpec():
            return "a list of computed length"
        case EitherSpec(items):
            return " or ".join(map(_described, items))
        case TableSpec(_, is_tuple, value):
            return f"a dict of {'tuples' if is_tuple else 'numbers'} to values that are each {_described(value)}"
        case ListSpec(item):
            return f"a list with items that are each {_described(item)}"
    return repr(spec.value)


def _fit_seeds(
    function: Function,
    captured: int,
    active: list[ScalarSpec | ArraySpec],
    seeds: tuple[Spec, ...],
    rule: str,
) -> None:
    """Give the parameters of seeds or tangents the types of the arguments, and put them before captured arrays.

    captured: how many there are of these. active: what they must look like, by which `rule`.
    """
    given = [leaf for spec in seeds for leaf in leaves(spec)]
    if len(given) != len(active):
        expected = active[0] if len(active) == 1 else TupleSpec(tuple(active))
        raise ArgumentError(
            f"{rule}: {_described(expected)}",
            code="DL704",
            help=f"given: {', '.join(map(_described, seeds))}",
        )
    n = len(function.params) - len(active)
    params, formal = function.entry.args[:n], function.entry.args[n:]
    actual: list[BlockArg] = []
    b = Builder(function)
    b.block, b.position = function.entry, 0
    mapping: dict[Value, Value] = {}
    for leaf, old, output in zip(given, formal, active, strict=True):
        if not _seeds(leaf, output):
            raise ArgumentError(
                f"{rule}: {_described(output)}, not {_described(leaf)}",
                code="DL704",
            )
        new = BlockArg(leaf.ir_type(), function.entry, old.name)
        actual.append(new)
        if new.type == old.type:
            mapping[old] = new
        elif isinstance(leaf, ScalarSpec) and isinstance(old.type, PointerType):
            dtype = old.type.dtype.name
            memory = b.emit("allocateHeap", dtype=dtype)
            b.emit("store", new if new.type.dtype.name == dtype else b.emit("dataTypeCast", new, to=dtype), memory)  # type: ignore[union-attr]
            mapping[old] = memory if memory.type == old.type else b.emit("pointerCast", memory, to=old.type)
        elif isinstance(old.type, PointerType):
            mapping[old] = b.emit("pointerCast", new, to=old.type)
        else:
            mapping[old] = b.emit("dataTypeCast", new, to=old.type.dtype.name)  # type: ignore[attr-defined]
    plain = len(params) - captured
    function.substitute(mapping)
    function.entry.args = [*params[:plain], *actual, *params[plain:]]


__all__ = ["Program", "TupleType", "all_partials", "derive", "pull_back", "push_forward", "record"]
