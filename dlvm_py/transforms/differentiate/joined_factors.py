"""Products with what branches chose are made in the branches, where the factor may be at hand in the reverse sweep.

    'then(): %x = load %p                              'then(): %x = load %p
             branch 'join(%x)                                   %y_0 = multiply %c, %x
    'else(): %r = apply @f(...)                                 branch 'join(%y_0)
             branch 'join(%r)                    =>    'else(): %r = apply @f(...)
    'join(%v: f64):                                             %y_1 = multiply %c, %r
             %y = multiply %c, %v                               branch 'join(%y_1)
                                                       'join(%y: f64):

The derivative of the product in %c needs the factor. Behind the join nobody knows which one it was, so it is kept
always; in a branch it is kept only where it cannot be read, or computed, again. For factors that nothing else uses, of
which one branch at least passes a literal, a parameter or something read; the join is no loop header, and its branches
go nowhere else. The same products of the same operands: every bit is kept. Before every reverse sweep, on the copy of
the function that is made for it.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, BlockArg, Builder, Function, Instruction, Literal, Value, is_scalar
from dlvm_py.ir.analysis import DominatorTree, predecessors, uses


def run(function: Function) -> bool:
    """Make the products of `function` in the branches; whether there was any."""
    joins = [b for b in function.blocks if b.args and b is not function.entry]
    if not any(i.op is OPS["multiply"] for b in joins for i in b.instructions):
        return False
    edges, users, dominators = predecessors(function), uses(function), DominatorTree(function)
    changed = False
    for join in joins:
        sources = [source for source, _ in edges[join]]
        if len(sources) < 2 or any(len(s.targets) != 1 or dominators.dominates(join, s) for s in sources):
            continue
        for k, arg in enumerate(join.args):
            product = _product(join, arg, users[arg])
            if product is not None and any(_is_at_hand(function, s.targets[0].args[k]) for s in sources):
                _make(function, product, arg, k, sources)
                users = uses(function)
                changed = True
    return changed


def _product(join: Block, arg: BlockArg, users: list[Instruction]) -> Instruction | None:
    """The only use of an argument of a block, if that is a product there with a number from before the block."""
    if len(users) != 1 or not is_scalar(arg.type) or not arg.type.dtype.is_inexact:  # type: ignore[attr-defined]
        return None
    (user,) = users
    if user.op is not OPS["multiply"] or user.block is not join or user.type != arg.type:
        return None
    other = user.operands[1] if user.operands[0] is arg else user.operands[0]
    is_before = isinstance(other, Literal) or other.block is not join  # type: ignore[attr-defined]
    return user if is_before else None


def _is_at_hand(function: Function, value: Value) -> bool:
    """Whether the reverse sweep may find a value without its being kept."""
    if isinstance(value, Instruction):
        return value.op.name == "load"
    return isinstance(value, Literal) or value in function.params


def _make(function: Function, product: Instruction, arg: BlockArg, k: int, sources: list[Block]) -> None:
    for source in sources:
        (target,) = source.targets
        operands = [target.args[k] if o is arg else o for o in product.operands]
        b = Builder(function).before(source.instructions[-1])
        b.loc = product.loc
        target.args[k] = b.emit(product.op, *operands, name=product.name, **product.attrs)
    assert product.block is not None
    product.block.instructions.remove(product)
    function.substitute({product: arg})
