"""Runs IR at stage scheduled natively, without the entry of the runtime: a context, ctypes, NumPy arrays."""

import ctypes

import numpy as np

from dlvm_py.backend.cpu.compile import compile_module, support_text
from dlvm_py.backend.cpu.contract import flat_types
from dlvm_py.backend.cpu.emit import emit
from dlvm_py.backend.imports import Imports
from dlvm_py.ir import PointerType, TupleType
from dlvm_py.options import Options
from dlvm_py.runtime.loader import load
from dlvm_py.runtime.native import standing

CTYPES = {"ptr": ctypes.c_void_p, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32}
CTYPES |= {"i64": ctypes.c_int64, "float": ctypes.c_float, "double": ctypes.c_double, "half": ctypes.c_uint16}


class Context(ctypes.Structure):
    """The context of the calling convention."""

    _fields_ = [("allocations", ctypes.c_void_p), ("thread_state", ctypes.c_void_p), ("fuel", ctypes.c_int64),
                ("site", ctypes.c_int32), ("pad", ctypes.c_int32), ("operands", ctypes.c_int64 * 4),
                ("taken", ctypes.c_int64)]  # fmt: skip


class Header(ctypes.Structure):
    """The header of an allocation."""

    _fields_ = [("refcount", ctypes.c_int64), ("data", ctypes.c_void_p), ("nbytes", ctypes.c_int64),
                ("pyobject", ctypes.c_void_p), ("previous", ctypes.c_void_p), ("next", ctypes.c_void_p)]  # fmt: skip


class Failed(Exception):
    """The kernel returned 1."""

    def __init__(self, site, operands, record):
        super().__init__(record)
        self.site, self.operands, self.record = site, operands, record


FREE = """
define void @free_all(ptr %c) {
  call void @dlvm.free_all(ptr %c)
  ret void
}
declare void @dlvm.free_all(ptr)
"""


class Native:
    """A compiled function: called with NumPy arrays and scalars, gives copies of what it returns."""

    def __init__(self, function, options=None, noalias_params=True, imports_change=None):
        self.function = function
        imports = Imports()
        self.emitted = emit(function, imports, options or Options(), noalias_params=noalias_params)
        symbol = self.emitted.symbol
        # polls of its own, whose imports can be changed
        polls = [support_text(imports, "signals.ll")] if imports_change else []
        self.compiled = compile_module([self.emitted.module_text, FREE, *polls], imports, [symbol, "free_all"])
        self.imports = imports.names
        names = imports_change(imports.names) if imports_change else imports.names
        self.code = load(self.compiled.object, names, [symbol, "free_all"], links=standing.links(self.compiled.shared))
        types = ["ptr", *(t for p in function.params for t in flat_types(p.type)), "ptr"]
        # PYFUNCTYPE keeps the GIL: the context has no thread state
        self.call = ctypes.PYFUNCTYPE(ctypes.c_int32, *(CTYPES[t] for t in types))(self.code[symbol])
        self.free_all = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self.code["free_all"])
        result = function.result
        self.leaves = list(result.elements) if isinstance(result, TupleType) else [result]

    def __call__(self, *args, fuel=1 << 20):
        context = Context(None, None, fuel, -7, 0)
        keep, flat = [], []
        for p, a in zip(self.function.params, args, strict=True):
            if isinstance(p.type, PointerType):
                header = Header(1 << 62, a.ctypes.data, 0, id(a), None, None)
                keep.append(header)
                flat += [a.ctypes.data, ctypes.addressof(header), *a.shape]
                flat += a.strides if p.type.layout == "S" else ()
            else:
                flat.append(np.asarray(a, np.float16).view(np.uint16).item() if p.type.dtype.name == "f16" else a)
        fields = [CTYPES[t] for leaf in self.leaves for t in flat_types(leaf)]
        results = type("Results", (ctypes.Structure,), {"_fields_": [(f"f{k}", t) for k, t in enumerate(fields)]})()
        status = self.call(ctypes.addressof(context), *flat, ctypes.addressof(results))
        self.context = context
        try:
            if status:
                raise self._failure(context)
            values = [getattr(results, f"f{k}") for k in range(len(fields))]
            found = []
            for leaf in self.leaves:
                width = len(flat_types(leaf))
                found.append(self._result(leaf, values[:width]))
                values = values[width:]
            return tuple(found) if isinstance(self.function.result, TupleType) and found else (found or [None])[0]
        finally:
            self.free_all(ctypes.addressof(context))

    def _failure(self, context):
        if context.site < 0:
            return Failed(context.site, [], None)
        site = self.emitted.sites[context.site]
        read = {"i64": int, "bool": bool, "f64": lambda n: np.int64(n).view(np.float64).item()}
        operands = [read[k](n) for k, n in zip(site.operand_kinds, context.operands, strict=False)]
        return Failed(context.site, operands, (site.exception, site.message.format(*operands)))

    def _result(self, leaf, values):
        if not isinstance(leaf, PointerType):
            return np.asarray(values[0], np.uint16).view(np.float16) if leaf.dtype.name == "f16" else values[0]
        shape = tuple(values[2 : 2 + leaf.rank])
        if not np.prod(shape, dtype=int):
            return np.empty(shape, leaf.dtype.numpy)
        bytes_ = (ctypes.c_byte * leaf.dtype.itemsize).from_address(values[0])
        first = np.frombuffer(bytes_, leaf.dtype.numpy)
        strides = values[2 + leaf.rank :] or np.empty(shape, leaf.dtype.numpy, order=leaf.layout).strides
        return np.lib.stride_tricks.as_strided(first, shape, tuple(strides)).copy()

    def allocations(self):
        """How many allocations the context still has."""
        count, at = 0, self.context.allocations
        while at:
            count, at = count + 1, Header.from_address(at).next
        return count
