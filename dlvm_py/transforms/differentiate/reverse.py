"""The reverse sweep: for every block of the primal one block that runs its adjoint, instructions last first.

The adjoint of a value that lives in one block is a plain SSA value there: the sum of the contributions of
its uses. The adjoint of a scalar that is used across blocks is a `Variable` of the reverse program,
zero at first, and zero again once the definition is passed (it may be passed again: loops). Operands that
are primal values stand in the generated code as they are, although they do not dominate it: `keep` finds
out afterwards which of them are really used, and how each becomes available.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.ir import Block, Builder, Instruction, TensorType, Value, is_array, literal, scalar
from dlvm_py.transforms.differentiate.activity import carries_derivative
from dlvm_py.transforms.differentiate.control import Control
from dlvm_py.transforms.differentiate.memory import CONSTRUCTS
from dlvm_py.transforms.differentiate.outputs import seed_outputs
from dlvm_py.transforms.differentiate.points_to import called
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.rules import contributions
from dlvm_py.transforms.differentiate.shadow_sums import ShadowSums
from dlvm_py.transforms.differentiate.shadows import Shadows
from dlvm_py.transforms.ssa_repair import Variable, assignment

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.calls import Splits
    from dlvm_py.transforms.differentiate.given import Given
    from dlvm_py.transforms.differentiate.places import PlacedShadows


class Sweep:
    """Emits the reverse sweep. `blocks` maps each block of the primal to its reverse.

    `sums` collects the additions of adjoints: where one operand turns out to be zero, they fold. `reductions` collects
    what is summed for an operand that an op has stretched.
    """

    def __init__(
        self,
        primal: Primal,
        shadows: Shadows | PlacedShadows,
        control: Control,
        seeds: list[Value],
        splits: Splits,
        given: Given,
    ) -> None:
        self.primal = primal
        self.splits = splits
        self.given = given
        self.shadows = shadows
        self.seeds = seeds
        self.b = Builder(primal.function)
        self.memory = ShadowSums(self.b, primal, shadows)
        self.sums: list[Instruction] = []
        self.reductions: list[Instruction] = []
        self.adjoint_stacks: dict[Value, Value] = dict(primal.adjoint_stacks)
        self._control = control
        self._variables: dict[Value, Variable] = {}
        self._current: dict[Value, Value | None] = {}
        self._block = primal.exit.block
        reverse_order = primal.order[::-1]
        self.blocks: dict[Block, Block] = {b: primal.function.new_block(f"{b.name}_adj") for b in reverse_order}
        # the exit makes the shadows; blocks of a loop that is left by a return alone may come behind it
        for block in (self._block, *(b for b in reverse_order if b is not self._block)):
            self._sweep(block)

    def scalar_results(self, params: list[Value]) -> list[Value]:
        """The final adjoints of scalar parameters, at the end of the reverse of the entry."""
        return [self._at_end(p) or self._zero(p) for p in params]

    def _at_end(self, param: Value) -> Value | None:
        return self._current[param] if param in self._current else self._variables.get(param)

    # -- adjoints of values --------------------------------------------------------------------------

    def _is_local(self, value: Value) -> bool:
        """Whether all uses of a value are in its own block (what it passes to successors included)."""
        if not isinstance(value, Instruction) or value.block is not self._block:
            return False
        if is_array(value.type) or all(user.block is value.block for user in self.primal.uses[value]):
            return value not in self.primal.exit.leaves or self._block is self.primal.exit.block
        return False

    def _zero(self, value: Value) -> Value:
        assert isinstance(value.type, TensorType)
        return literal(0.0, scalar(value.type.dtype))

    def _variable(self, value: Value) -> Variable:
        if value not in self._variables:
            self._variables[value] = Variable(value.type, f"{value.name}_adj", default=self._zero(value))
        return self._variables[value]

    def _read(self, value: Value) -> Value | None:
        if value in self._current:
            return self._current[value]
        if self._is_local(value):
            return None
        # what the variable holds now: at the end of the block adjoints may trade places
        before = Variable(value.type, f"{value.name}_adj", default=self._zero(value))
        self.b.insert(assignment(before, self._variable(value)))
        self._current[value] = before
        return before

    def take(self, value: Value) -> Value | None:
        """The adjoint of `value`, None for zero; from here on it is zero."""
        if not self.primal.is_active(value):
            return None
        found = self._read(value)
        self._current[value] = None
        return found

    def accumulate(self, value: Value, amount: Value) -> None:
        """value_adj += amount."""
        if not self.primal.is_active(value):
            return
        before = self._read(value)
        if before is not None:
            amount = self.b.emit("add", before, amount)
            self.sums.append(amount)  # type: ignore[arg-type]
        if isinstance(amount, Instruction) and not amount.name and value.name:
            amount.name = f"{value.name}_adj"
        self._current[value] = amount

    # -- blocks --------------------------------------------------------------------------------------

    def _sweep(self, block: Block) -> None:
        self._block = block
        self._current = {}
        self.b.at_end(self.blocks[block])
        self.b.loc = None
        self._control.enter(self.b, block)
        if block is self.primal.exit.block:
            self.shadows.open(self.b)
            self.memory.begin()
            seed_outputs(self)
        self._receive(block)
        for i in reversed(self.primal.bodies[block]):
            self.b.loc = i.loc
            self._instruction(i)
        self.memory.flush()
        for value, adjoint in self._current.items():
            if not self._is_local(value):
                self.b.insert(assignment(self._variable(value), adjoint or self._zero(value)))
        self._control.leave(self.b, block, self.blocks)

    def _receive(self, block: Block) -> None:
        """What the block passes to its successor's arguments gets their adjoints."""
        if len(block.targets) != 1:
            return
        (target,) = block.targets
        # all are read before any is added to: `branch 'loop(%b, %a)` swaps
        pairs = list(zip(target.block.args, target.args, strict=True))
        taken = [(operand, self.take(arg)) for arg, operand in pairs if isinstance(arg.type, TensorType)]
        for operand, seed in taken:
            if seed is not None:
                self.accumulate(operand, seed)

    def _instruction(self, i: Instruction) -> None:
        if i in self.splits.calls:
            self.splits.reverse(self, i)
            return
        if i in self.given.calls:
            self.given.reverse(self, i)
            return
        if called(i) is not None:
            return  # what an element of a result has gathered, the call takes
        if i.op in CONSTRUCTS:
            CONSTRUCTS[i.op](self, i)
            return
        if not (carries_derivative(i) and self.primal.is_active(i)):
            return
        seed = self.take(i)
        if seed is None:
            return
        wanted = [self.primal.is_active(o) for o in i.operands]
        guarded = i in self.primal.activity.guarded
        for operand, amount in zip(i.operands, contributions(self.b, i, seed, wanted, guarded), strict=True):
            if amount is None:
                continue
            total = amount
            for name in ("scaleSeed", "padShape"):  # divided behind the sum; along an axis that has one element here
                if total is not seed and isinstance(total, Instruction) and total.op.name == name:
                    total = total.operands[0]
            if total is not seed and isinstance(total, Instruction) and total.op.name == "reduce":
                if total.block is self.b.block:  # it may be what the function has summed, times one
                    self.reductions.append(total)
            self.accumulate(operand, amount)
