"""Arguments of called functions that are in memory still, as they were, when the reverse sweep comes.

    func @g: (*<_ x f64> %a, i64 %k) {                 func @f: (*<_ x f64> %x) {
        %p = elementPointer %a at %k                       %y = apply @g(%x, %size)
        %v = load %p          lasts: what @g reads         ...                    %x is a parameter, which
        ... apply @g(%a, %less)  is %x at every depth  }                          nothing of it all writes

What a function reads of such a parameter its reverse function reads again, by an index that it has anyway, where else
each element would go on the tape. A parameter lasts if at every call it is given

* by the function that is differentiated: one of its own parameters, or a view of them that is made once, and neither
  that function nor what it calls writes their memory (what is written is copied at entry, so the copy is not meant);
* by another one: a parameter of its own that lasts, as it is.

The reverse function gets the pointer as it gets what else it needs of the forward one (handed_down.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dlvm_py.ir import BlockArg, Function, Instruction, PointerType, TensorType, Value
from dlvm_py.ir.analysis.calls import calls

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.primal import Primal


def lasting(
    primal: Primal,
    sites: Sequence[tuple[str, list[Value]]],
    functions: Sequence[Function],
    written: Mapping[str, set[int]],
) -> dict[str, set[int]]:
    """The parameters that last, of each of `functions`: what can be reached from the calls in `primal`.

    sites: these calls, each the name of a function and its operands. written: which parameters each function writes.
    """
    found: dict[str, set[int]] = {f.name: set() for f in functions}
    if primal.is_detached:
        return found  # between the sweeps the memory is in the hands of the caller
    for f in functions:
        arrays = {k for k, p in enumerate(f.params) if isinstance(p.type, PointerType)}
        found[f.name] = {k for k in arrays - written[f.name] if isinstance(f.params[k].type.pointee, TensorType)}  # type: ignore[attr-defined]
    for name, operands in sites:
        found[name] = {k for k in found[name] if _lasts(primal, operands[k])}
    inner = [(f, call) for f in functions for call in calls(f) if call.attrs["callee"] in found]
    changed = True
    while changed:
        changed = False
        for f, call in inner:
            mine = {f.params[k] for k in found[f.name]}
            name = call.attrs["callee"]
            left = {k for k in found[name] if call.operands[k] in mine}
            if left != found[name]:
                found[name], changed = left, True
    return found


def _lasts(primal: Primal, pointer: Value) -> bool:
    """Whether the function that is differentiated has a pointer once, to memory of its caller that nothing writes."""
    roots = primal.points_to.roots(pointer)
    if not roots or not roots <= frozenset(primal.formal) or not roots.isdisjoint(primal.points_to.written):
        return False
    return isinstance(pointer, BlockArg | Instruction) and primal.loop_of(pointer.block) is None  # type: ignore[arg-type]
