"""OPS: every operation of the IR by name, collected from the family files."""

from dlvm_py.ir.op import Op, table
from dlvm_py.ir.ops.aggregates import AGGREGATES
from dlvm_py.ir.ops.arrange import ARRANGE
from dlvm_py.ir.ops.cells import CELLS
from dlvm_py.ir.ops.convolve import CONVOLVE
from dlvm_py.ir.ops.draw import DRAWS
from dlvm_py.ir.ops.eigen import EIGEN
from dlvm_py.ir.ops.elementwise import ELEMENTWISE
from dlvm_py.ir.ops.fourier import FOURIER
from dlvm_py.ir.ops.functions import FUNCTIONS
from dlvm_py.ir.ops.gather import GATHER
from dlvm_py.ir.ops.intrinsics import builtin
from dlvm_py.ir.ops.least_squares import LEAST_SQUARES
from dlvm_py.ir.ops.linear import LINEAR_ALGEBRA
from dlvm_py.ir.ops.memory import FLOW, MEMORY
from dlvm_py.ir.ops.objects import OBJECTS
from dlvm_py.ir.ops.order import ORDER
from dlvm_py.ir.ops.random import RANDOM
from dlvm_py.ir.ops.reduce import REDUCE
from dlvm_py.ir.ops.scan import SCAN
from dlvm_py.ir.ops.shape import SHAPE
from dlvm_py.ir.ops.svd import SINGULAR
from dlvm_py.ir.ops.window import WINDOW

OPS: dict[str, Op] = table(
    ELEMENTWISE,
    SHAPE,
    REDUCE,
    ARRANGE,
    RANDOM,
    DRAWS,
    WINDOW,
    CONVOLVE,
    SCAN,
    FOURIER,
    GATHER,
    ORDER,
    LINEAR_ALGEBRA,
    EIGEN,
    SINGULAR,
    LEAST_SQUARES,
    MEMORY,
    FLOW,
    AGGREGATES,
    CELLS,
    OBJECTS,
    FUNCTIONS,
    (builtin,),
)

__all__ = ["OPS"]
