"""Where gradients stop: the lines at which values that depend on `wrt` go into something that has no derivative."""

from __future__ import annotations

from dataclasses import dataclass

from dlvm_py.errors import Loc
from dlvm_py.ir import BOOL, Instruction, Kind, Module, TensorType, Value, scalar
from dlvm_py.ir.analysis import uses
from dlvm_py.ir.analysis.calls import written_params
from dlvm_py.transforms.differentiate.activity import Activity, carries_derivative
from dlvm_py.transforms.differentiate.points_to import PointsTo

_COMPUTES = (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.GENERATE, Kind.INDEX)


@dataclass(frozen=True, slots=True)
class Stop:
    """One such line. `decides`: the value is only compared, so the derivative is that of the branch taken."""

    loc: Loc
    what: str
    decides: bool


def stops(module: Module, name: str, inputs: list[int]) -> list[Stop]:
    """The stops of a function for derivatives with respect to the parameters `inputs`, in the order of the source."""
    function = module.functions[name]
    callees = {i.attrs["callee"] for i in function.instructions() if i.op.kind is Kind.CALL}
    written = {c: written_params(module, c) for c in callees if c in module.functions}
    points_to = PointsTo(function, written)
    outputs: list[Value] = [p for p in function.params if carries_derivative(p)]
    activity = Activity(function, points_to, [function.params[k] for k in inputs], outputs)
    used = uses(function)
    found: dict[tuple[Loc, bool], Stop] = {}
    for i in function.instructions():
        if i.loc is None or not any(activity.is_varied(o) for o in i.operands if carries_derivative(o)):
            continue
        stop = _stop(i, used)
        if stop is not None:
            found.setdefault((Loc(i.loc.file, i.loc.line), stop.decides), stop)
    return sorted(found.values(), key=lambda s: (s.loc.file, s.loc.line, s.loc.col))


def _stop(i: Instruction, used: dict[Value, list[Instruction]]) -> Stop | None:
    assert i.loc is not None
    if not used.get(i) or not isinstance(i.type, TensorType) or i.op.kind not in _COMPUTES:
        return None
    if i.op.name == "dataTypeCast" and not i.type.dtype.is_inexact:
        return Stop(i.loc, f"a cast to {i.type.dtype.name} is flat: it has derivative 0", False)
    if i.op.no_derivative is None:
        return None
    if i.op.name in ("isNan", "isFinite") or _is_tested(i, used):
        return None
    if i.type.dtype.name == "bool":
        return Stop(i.loc, "a comparison decides: derivatives are those of the branch that is taken", True)
    name = i.op.numpy_name or i.op.name
    return Stop(i.loc, f"{name} has derivative 0: {i.op.no_derivative}", False)


def _is_tested(i: Instruction, used: dict[Value, list[Instruction]]) -> bool:
    """Whether a condition only decides if something is raised."""
    return i.type == scalar(BOOL) and all(
        u.op.kind is Kind.CHECK or (u.op.kind in _COMPUTES and _is_tested(u, used)) for u in used.get(i, ())
    )
