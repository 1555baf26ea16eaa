"""The host driver of a GPU program: the function compiled for the CPU, its arrays in memory of the device.

Control flow, scalars, extents, reference counts, checks and tapes of scalars are those of `backend/cpu`, written by the
same emitter. Pointers hold addresses of the device, which the host never reads through: array roots are launches of
kernels, `@dlvm.gpu.launch(ctx, kernel, blocks, threads, parameters)`, and a scalar that is computed on the device, or
read from an array, is fetched. Kernels and the functions of the driver API are imports (`kernel:0`, `cuda:...`), so
that the code is the same for a device and for the emulator.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.contract import DATA
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.pointers import Pointer, load_element
from dlvm_py.backend.cpu.text import ModuleText
from dlvm_py.backend.cpu.values import NULL, V, i64
from dlvm_py.backend.gpu.kernel import THREADS, Kernel, refuse
from dlvm_py.backend.imports import Imports
from dlvm_py.ir import DType, Function, Instruction
from dlvm_py.options import Options

# what a launch takes of the fuel: some microseconds
LAUNCH_FUEL = 4096
# what a launch takes: 4 KB, of 8 bytes each, on every device and with every driver
PARAMETERS = 512
SPLIT = "give a part of it a name, and use that twice"


class HostEmitter(FunctionEmitter):
    """The code of one function of a host driver. `texts`: the kernels of the program, equal ones once."""

    def __init__(
        self,
        module: ModuleText,
        imports: Imports,
        function: Function,
        options: Options,
        noalias_params: bool,
        texts: dict[str, Kernel],
        sites: list | None = None,
    ) -> None:
        super().__init__(module, imports, function, options, noalias_params, sites)
        self.chunked = {}  # chunks are memory of the host
        self.texts = texts
        self.slots: dict[
            Instruction, V
        ] = {}  # of allocations and releases of arrays whose memory takes turns (replays.py)
        self.fastmath = options.fastmath

    def allocate(self, nbytes: V) -> V:
        """The header of fresh memory of the device; MemoryError where there is none."""
        self.module.declare("dlvm.gpu.allocate", "ptr", ["ptr", "i64"])
        header = self.call("@dlvm.gpu.allocate", "ptr", [self.ctx, nbytes])
        self.go_on_if(self.icmp("ne", header, NULL))  # why there is none is recorded
        return header

    def next_of(self, slot: V, nbytes: V) -> V:
        """As allocate, of memory that takes turns."""
        self.module.declare("dlvm.gpu.next", "ptr", ["ptr", "ptr", "i64"])
        header = self.call("@dlvm.gpu.next", "ptr", [self.ctx, slot, nbytes])
        self.go_on_if(self.icmp("ne", header, NULL))
        return header

    def keep(self, header: V, slot: V) -> None:
        """One reference less, to memory that takes turns."""
        self.module.declare("dlvm.gpu.keep", "void", ["ptr", "ptr", "ptr"])
        self.call("@dlvm.gpu.keep", "void", [self.ctx, header, slot])

    def data_of(self, header: V) -> V:
        """The address that a header names."""
        return self.load("ptr", self.gep("i8", header, i64(DATA)))

    def launch(self, kernel: Kernel, blocks: V, threads: int | V = THREADS) -> None:
        """Launch a kernel that is written, with `blocks` blocks."""
        if len(kernel.arguments) > PARAMETERS:
            refuse(f"an array expression of more than {PARAMETERS} operands, extents and strides", self.loc, SPLIT)
        known = self.texts.setdefault(kernel.finish(), kernel)
        name = list(self.texts.values()).index(known)
        parameters = self._parameters(kernel.arguments)
        self.module.declare("dlvm.gpu.launch", "i32", ["ptr", "ptr", "i64", "i32", "ptr"])
        pointer = self.import_pointer(f"kernel:{name}")
        threads = threads if isinstance(threads, V) else V("i32", str(threads))
        args = [self.ctx, pointer, blocks, threads, parameters]
        self.go_on_if_done(self.call("@dlvm.gpu.launch", "i32", args))
        self.spend(i64(LAUNCH_FUEL))

    def _parameters(self, values: Sequence[V]) -> V:
        """The table of the addresses of parameters, in memory of the frame that all launches share."""
        count = max(len(values), 1)
        slots, table = self.scratch(f"[{count} x i64]", 16), self.scratch(f"[{count} x ptr]", 16)
        for k, v in enumerate(values):
            place = self.gep("i64", slots, i64(k))
            self.store(v, place)
            self.store(place, self.gep("ptr", table, i64(k)))
        return table

    def go_on_if_done(self, status: V) -> None:
        """Leave by the error path unless a status is 0: the record is filled."""
        self.go_on_if(self.icmp("eq", status, V("i32", "0")))

    def fetch(self, dtype: DType, address: V) -> V:
        """The element at an address of the device as a register value, when everything before is done."""
        slot = self.scratch(f"[{dtype.itemsize} x i8]", 16)
        self.module.declare("dlvm.gpu.fetch", "i32", ["ptr", "ptr", "ptr", "i64"])
        args = [self.ctx, slot, address, i64(dtype.itemsize)]
        self.go_on_if_done(self.call("@dlvm.gpu.fetch", "i32", args))
        return load_element(self, dtype, slot)

    def copy(self, to: V, source: V, nbytes: V) -> None:
        """Copy memory of the device, behind what the stream does."""
        self._move("copy", to, source, nbytes)

    def send(self, to: V, source: V, nbytes: V) -> None:
        """Copy memory of the host, some bytes or more, to the device; the host's may change afterwards."""
        self._move("send", to, source, nbytes)

    def _move(self, how: str, to: V, source: V, nbytes: V) -> None:
        self.module.declare(f"dlvm.gpu.{how}", "i32", ["ptr", "ptr", "ptr", "i64"])
        self.go_on_if_done(self.call(f"@dlvm.gpu.{how}", "i32", [self.ctx, to, source, nbytes]))

    def stop_recording(self) -> None:
        """No graph can have what comes now."""
        self.module.declare("dlvm.gpu.forget", "void", ["ptr"])
        self.line(f"call void @dlvm.gpu.forget(ptr {self.ctx.ref})")

    def cell(self, dtype: DType) -> tuple[V, Pointer]:
        """Memory of the device for one element: its header, and a pointer of rank 0."""
        header = self.allocate(i64(dtype.itemsize))
        return header, Pointer(dtype, "C", self.data_of(header), header, ())
