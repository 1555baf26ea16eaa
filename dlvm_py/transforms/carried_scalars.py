"""Carried scalars: an array without axes that blocks hand on, and nobody writes, is the scalar that was stored in it.

    'loop(%k: i64, %best: *f64):                        'loop(%k: i64, %best: f64):
        ...                                                 ...
    'body():                                            'body():
        %b = load %best: *f64                               %n = max %b: f64, %v: f64
        %n = max %b: f64, %v: f64                  =>       branch 'loop(%k1: i64, %n: f64)
        %m = allocateHeap f64 count ()                  'exit():
        store %n: f64 to %m: *f64                           %m = allocateHeap f64 count ()
        branch 'loop(%k1: i64, %m: *f64)                    store %best: f64 to %m: *f64
    'exit():                                                return %m: *f64
        return %best: *f64

`best = np.where(v > best, v, best)` binds fresh memory in each trip, as all array expressions do. value_promotion.py
takes it away where only its own name reads it; here the pointer goes on as an argument of blocks.

Pointers to one element that may be the same one are a group: fresh allocations, casts of them, and the arguments of
blocks that they are passed to. A group is promoted if

* something is passed to an argument, and all that is passed is of the group, or absent (NULL, UNDEFINED: nothing loads
  it there, any number does);
* every allocation is stored to once, before it is used otherwise in its block, and the others never are;
* the pointers are loaded from, passed on and returned, and nothing else. One return gives back one pointer of the
  group at most: whether two are the same memory only memory can say.

An argument becomes one of the scalar's type, a load what its pointer stands for, and what is returned is memory made
there. Raw and optimizable stage; a second run changes nothing.
"""

from __future__ import annotations

from dlvm_py.ir import (
    DTYPES,
    NULL,
    OPS,
    UNDEFINED,
    BlockArg,
    Function,
    Instruction,
    Literal,
    PointerType,
    TensorType,
    Value,
    is_scalar,
    literal,
    scalar,
)
from dlvm_py.ir.analysis.cfg import bound_blocks
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.function import resolve_chains
from dlvm_py.transforms.simplify_cfg import incoming_values
from dlvm_py.transforms.substitution import substitute


def run(function: Function) -> bool:
    """Carry scalars in the place of the pointers of `function` that can only be read; whether there were any."""
    if not any(_is_pointer(a) for block in function.blocks[1:] for a in block.args):
        return False
    allocations = [i for i in function.instructions() if i.op is OPS["allocateHeap"] and _is_pointer(i)]
    if not allocations:
        return False
    groups = _Groups(function, allocations)
    promoted = groups.promoted()
    if not promoted:
        return False
    _rewrite(function, promoted, groups)
    return True


def _is_pointer(v: Value) -> bool:
    return isinstance(v.type, PointerType) and is_scalar(v.type.pointee) and v.type.dtype.name in DTYPES


def _pointee(v: Value) -> TensorType:
    assert isinstance(v.type, PointerType)
    return scalar(v.type.dtype)


class _Groups:
    """The pointers that may be the same memory, by a representative; and which groups cannot be promoted."""

    def __init__(self, function: Function, allocations: list[Instruction]) -> None:
        self.users = uses(function)
        self.stores: dict[Value, Instruction] = {}  # the one of an allocation
        bound = bound_blocks(function)
        self.incoming = {
            a: values for a, values in incoming_values(function).items() if _is_pointer(a) and a.block not in bound
        }
        casts = [i for i in function.instructions() if i.op is OPS["pointerCast"] and _is_pointer(i)]
        self.parent: dict[Value, Value] = {v: v for v in (*allocations, *self.incoming, *casts)}
        self.refused: set[Value] = set()
        for i in allocations:
            self._take_store(i)
        for a, values in self.incoming.items():
            for v in values:
                self._join(a, v)
        for i in casts:
            self._join(i, i.operands[0])
        returned: dict[tuple[Instruction, Value], Value] = {}  # by a return, of a group
        for v in self.parent:
            for user in self.users[v]:
                if self.is_returned(user):
                    known = returned.setdefault((user, self._root(v)), v) is v
                else:
                    known = self._is_understood(v, user)
                if not known:
                    self.refused.add(v)

    def promoted(self) -> list[Value]:
        """The pointers that are to be scalars."""
        refused = {self._root(v) for v in self.refused}
        carried = {self._root(a) for a in self.incoming} - refused
        return [v for v in self.parent if self._root(v) in carried]

    def _root(self, v: Value) -> Value:
        while self.parent[v] is not v:
            self.parent[v] = self.parent[self.parent[v]]
            v = self.parent[v]
        return v

    def _join(self, v: Value, given: Value) -> None:
        if given in self.parent:
            self.parent[self._root(given)] = self._root(v)
        elif not _is_absent(given) or not isinstance(v, BlockArg):
            self.refused.add(v)

    def _take_store(self, i: Instruction) -> None:
        """Find what an allocation holds from its first use on."""
        stores = [u for u in self.users[i] if u.op is OPS["store"] and u.operands[1] is i]
        first = next((u for u in self.users[i] if u.block is i.block), None)
        if len(stores) == 1 and stores[0] is first:
            self.stores[i] = first
        else:
            self.refused.add(i)

    def _is_understood(self, v: Value, user: Instruction) -> bool:
        """Whether one of the users of a pointer does with it what can be done with a scalar."""
        if user.targets:
            formals = (f for t in user.targets for f, a in zip(t.block.args, t.args, strict=True) if a is v)
            return v not in user.operands and all(f in self.incoming for f in formals)
        if user.op is OPS["store"]:
            return user is self.stores.get(v)
        return user.op is OPS["load"] or user in self.parent

    def is_returned(self, user: Instruction) -> bool:
        """Whether an instruction gives what it has to the caller."""
        if user.op is OPS["tuple"]:
            return [u.op.name for u in self.users[user]] == ["return"] and self.users[user][0].block is user.block
        return user.op is OPS["return"]


def _is_absent(v: Value) -> bool:
    """Whether nothing is passed here."""
    return isinstance(v, Literal) and (v.value is NULL or v.value is UNDEFINED)


def _rewrite(function: Function, promoted: list[Value], groups: _Groups) -> None:
    scalars: dict[Value, Value] = {}  # what the pointers, and the loads from them, are now
    returns: list[tuple[Instruction, Value]] = []
    for v in promoted:
        if isinstance(v, BlockArg):
            scalars[v] = BlockArg(_pointee(v), v.block, v.name)
        else:
            assert isinstance(v, Instruction)
            scalars[v] = groups.stores[v].operands[0] if v in groups.stores else v.operands[0]
        for user in groups.users[v]:
            if user.op is OPS["load"]:
                scalars[user] = v
            elif groups.is_returned(user) and (user, v) not in returns:
                returns.append((user, v))
    removed = {v for v in scalars if isinstance(v, Instruction)}
    removed.update(groups.stores[v] for v in promoted if v in groups.stores)
    scalars = resolve_chains(scalars)
    for user, v in returns:
        _return_memory(user, v, scalars[v])
    for block in function.blocks:
        for t in block.targets:
            t.args = [
                literal(0, _pointee(f)) if f in scalars and _is_absent(a) else a
                for f, a in zip(t.block.args, t.args, strict=True)
            ]
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i not in removed]
        block.args = [scalars.get(a, a) for a in block.args]  # type: ignore[misc]
    substitute(function.blocks, scalars)


def _return_memory(user: Instruction, pointer: Value, value: Value) -> None:
    """Make the memory that a return gives back in the place of a pointer."""
    block = user.block
    assert block is not None
    dtype = _pointee(pointer).dtype.name
    memory = returned = Instruction(OPS["allocateHeap"], [], {"dtype": dtype}, name=pointer.name, loc=user.loc)
    made = [memory, Instruction(OPS["store"], [value, memory], loc=user.loc)]
    if memory.type != pointer.type:
        returned = Instruction(OPS["pointerCast"], [memory], {"to": pointer.type}, loc=user.loc)
        made.append(returned)
    for i in made:
        i.block = block
    place = block.instructions.index(user)
    block.instructions[place:place] = made
    user.operands = [returned if v is pointer else v for v in user.operands]
