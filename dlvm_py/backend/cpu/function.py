"""The state of one function while its code is written: values, raising, fuel, alias metadata, literals.

Errors leave by small cold blocks that fill the context and return 1; nothing is released there, as the entry
frees what ctx.allocations still holds. Fuel is a local variable that LLVM keeps in a register; it is at least 1
wherever it is read, so that a loop may count it down to exactly 0 (a trip count that LLVM can compute).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.chunks import chunked
from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.contract import FUEL, MAX_OPERANDS, OPERANDS, SITE, SITE_MEMORY, flat_types, scalar_type
from dlvm_py.backend.cpu.kept_registers import KEEPS_REGISTERS, as_kept, call_keeping, kept_type
from dlvm_py.backend.cpu.plan import Plan
from dlvm_py.backend.cpu.pointers import Pointer, flatten, null_pointer, unflatten, variable
from dlvm_py.backend.cpu.text import ModuleText
from dlvm_py.backend.cpu.values import NULL, ONE, ZERO, Label, V, constant, float_constant, i64
from dlvm_py.backend.imports import Imports
from dlvm_py.backend.site import Site
from dlvm_py.errors import Loc, PassError
from dlvm_py.ir import (
    Function,
    Instruction,
    Literal,
    PointerType,
    StackType,
    TensorType,
    TupleType,
    Type,
    Value,
    is_scalar,
)
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.options import Options

# more roots than this get no alias metadata, whose text grows with their square
MAX_SCOPES = 48

# instructions of the IR from which on a function is a long one
LONG = 400

# the attribute of an extent
NOT_NEGATIVE = "range(i64 0, 9223372036854775807)"

Lowered = V | Pointer | list


class FunctionEmitter(Code):
    """The code of one IR function; its last parameters are the variables of the module of the names `bound`.

    `env` maps IR values to scalars (V), Pointers, stacks (V) and lists (tuples).
    """

    def __init__(
        self,
        module: ModuleText,
        imports: Imports,
        function: Function,
        options: Options,
        noalias_params: bool,
        sites: list[Site] | None = None,
        bound: Sequence[str] = (),
    ) -> None:
        # kernels are not inlined into each other: the alias metadata of one activation say nothing of another.
        # No tail calls: a recursion without end is to come to the end of the stack
        self.is_in_calls = sites is not None
        own = function.params[: len(function.params) - len(bound)]
        widths = [["ptr"] if isinstance(p.type, StackType) else flat_types(p.type) for p in own]
        params = ["ptr", *(t for types in widths for t in types), "ptr"]
        attributes = '|nounwind noinline "disable-tail-calls"="true"' if self.is_in_calls else "|nounwind"
        super().__init__(module, imports, f"dl.{function.name}", "i32", params, attributes)
        self.function = function
        # what stands between the kernels of a long function is small beside them, and most of what LLVM has to read
        self.is_long = module.shares and sum(len(b.instructions) for b in function.blocks) > LONG
        self.flags = "fast" if options.fastmath else ""
        self.plan = Plan()  # what the IR says of the kernel that is being written
        self.ctx, self.results = self.params[0], self.params[-1]
        self.env: dict[Value, Lowered] = {}
        self.sites: list[Site] = [] if sites is None else sites
        self.loc: Loc | None = None
        self.waiting: list[Instruction] = []  # checks that are asked where a later one fails, which implies them
        self._scratch: dict[str, V] = {}
        self._kept: dict[str, V] = {}
        self.depth = 0  # how many loops of the program are around what is written
        self.walks_apart = False  # whether a loop of a few steps reads elements that lie apart
        self.chooses_in_loops = False  # whether a kernel with several versions stands in a loop in a loop
        self._varying: Callable[[V], bool] = lambda v: False
        self._exits: dict[int | None, Label] = {}
        self._alias = AliasAnalysis(function, noalias_params)
        self.chunked = chunked(function, self._alias)
        # where the entries of pushes and pops lie for which there is room already
        self.entries: dict[Instruction, V] = {}
        self.chunks: dict[Value, V] = {}  # of stacks: where the fields of the chunk are
        self._scopes = self._make_scopes()
        self._notes: dict[frozenset[Value], str] = {}
        self.fuel = self.alloca("i64")
        self._refuel()
        # integers have registers that every call keeps
        handed_on = (a.type for block in function.blocks[1:] for a in block.args if is_scalar(a.type))
        self._keeps = module.permutes and any(t.dtype.kind in "fc" for t in handed_on)  # type: ignore[attr-defined]
        values = self.params[1:-1]
        for p, name in zip(function.params[len(own) :], bound, strict=True):
            assert isinstance(p.type, PointerType)
            self.env[p] = variable(module, p.type, name)
        for p, types in zip(own, widths, strict=True):
            mine, values = values[: len(types)], values[len(types) :]
            is_stack = isinstance(p.type, StackType)
            if isinstance(p.type, PointerType):
                self.param_notes.update(dict.fromkeys(mine[2 : 2 + p.type.rank], NOT_NEGATIVE))
            self.env[p] = mine[0] if is_stack else self.from_memory_form(p.type, mine, self.notes(p))

    @property
    def is_brief(self) -> bool:
        """Whether what stands between kernels is written as calls: in long functions, and outside of loops."""
        return self.is_long or (self.module.shares and self.depth == 0)

    # -- values --------------------------------------------------------------------------------------

    def lookup(self, value: Value) -> Lowered:
        """The lowered form of an IR value."""
        if isinstance(value, Literal):
            return self._literal(value)
        if value not in self.env:
            raise PassError(f"the back end met {value!r}, which is not computed at that point")
        return self.env[value]

    def scalar(self, value: Value) -> V:
        """The register value of a scalar."""
        found = self.lookup(value)
        assert isinstance(found, V)
        return found

    def pointer(self, value: Value) -> Pointer:
        """The Pointer of a pointer value."""
        found = self.lookup(value)
        assert isinstance(found, Pointer)
        return found

    def _literal(self, value: Literal) -> Lowered:
        t = value.type
        if isinstance(t, PointerType):
            return null_pointer(t)
        if isinstance(t, StackType):
            return NULL
        if isinstance(t, TupleType):
            return [self._literal(Literal(e, value.value)) for e in t.elements]
        assert isinstance(t, TensorType) and not t.shape, t
        n = value.value if isinstance(value.value, bool | int | float | complex) else 0
        type = scalar_type(t.dtype)
        if t.dtype.kind == "b":
            return V(type, "true" if n else "false")
        if t.dtype.kind == "f":
            return float_constant(type, float(n))  # type: ignore[arg-type]
        if t.dtype.kind == "c":
            part = scalar_type(t.dtype.real)
            real, imaginary = (float_constant(part, p) for p in (complex(n).real, complex(n).imag))
            return V(type, f"{{ {part} {real.ref}, {part} {imaginary.ref} }}")
        return V(type, str(int(n)))  # type: ignore[arg-type]

    def to_memory_form(self, value: Lowered) -> list[V]:
        """The flattened native values: bools as i8."""
        if isinstance(value, list):
            return [v for part in value for v in self.to_memory_form(part)]
        if isinstance(value, Pointer):
            return flatten(value)
        return [self.cast("zext", value, "i8") if value.type == "i1" else value]

    def from_memory_form(self, type: Type, values: Sequence[V], notes: str = "") -> Lowered:
        """The value of `type` that `values` are the native form of."""
        if isinstance(type, PointerType):
            return unflatten(type, values, notes)
        assert isinstance(type, TensorType)
        return self.icmp("ne", values[0], V("i8", "0")) if type.dtype.kind == "b" else values[0]

    def scratch(self, type: str, align: int) -> V:
        """Stack memory that every user of that type shares: nothing in it lasts."""
        if type not in self._scratch:
            self._scratch[type] = self.alloca(type, align)
        return self._scratch[type]

    def kept(self, type: str, align: int) -> V:
        """Stack memory that every user of that type shares, in which something lasts to the end of a kernel."""
        if type not in self._kept:
            self._kept[type] = self.alloca(type, align)
        return self._kept[type]

    def scratches(self) -> Sequence[V]:
        """Memory of the frame in which nothing lasts."""
        return tuple(self._scratch.values())

    def lasting(self) -> Sequence[V]:
        """Memory of the frame in which something lasts to the end of a kernel."""
        return tuple(self._kept.values())

    def enter_loop(self, depth: int, varying: Callable[[V], bool]) -> None:
        """What follows stands in `depth` loops of the program, in the innermost of which these values change."""
        self.depth, self._varying = depth, varying

    def enter_kernel(self, plan: Plan) -> None:
        """What follows is a kernel of which the IR says this; there are threads where modules share functions."""
        self.plan, self.grain = plan, plan.grain if self.module.shares else None

    def is_fixed(self, v: V) -> bool:
        """Whether a value is the same in all iterations of the innermost loop of the program."""
        return constant(v) is not None or not self._varying(v)

    # -- raising -------------------------------------------------------------------------------------

    def site(self, exception: str, message: str, kinds: tuple[str, ...] = (), assumes: str = "") -> int:
        """A new entry of the site table, at the current location."""
        self.sites.append(Site(exception, message, kinds, self.loc, assumes=assumes))
        return len(self.sites) - 1

    def fail(self, site: int, operands: Sequence[V] = ()) -> None:
        """End the current block: fill the error record and return 1."""
        if len(operands) > MAX_OPERANDS:
            raise PassError(f"a check can show {MAX_OPERANDS} operands, not {len(operands)}")
        self.store(V("i32", str(site)), self.gep("i8", self.ctx, i64(SITE)))
        for k, v in enumerate(operands):
            if v.type == "double":
                v = self.cast("bitcast", v, "i64")
            elif v.type == "float":
                v = self.cast("zext", self.cast("bitcast", v, "i32"), "i64")
            elif v.type == "i1":
                v = self.cast("zext", v, "i64")
            self.store(v, self.gep("i8", self.ctx, i64(OPERANDS + 8 * k)))
        self.line("ret i32 1")

    def require(self, flag: V, site: int, operands: Sequence[V] = ()) -> None:
        """Continue where `flag` holds, else fail with `site`."""
        ok, bad = self.label("ok"), self.label("fail")
        self.likely(flag, ok, bad)
        self.place(bad)
        self.fail(site, operands)
        self.place(ok)

    def raise_unless(self, flag: V, exception: str, message: str) -> None:
        """Leave by the error path unless `flag` holds."""
        self.require(flag, self.site(exception, message))

    def require_memory(self, header: V) -> None:
        """Leave with MemoryError where an allocation gave null."""
        self.go_on_if(self.icmp("ne", header, NULL), SITE_MEMORY)

    def go_on_if(self, flag: V, site: int | None = None) -> None:
        """Leave by a block that others share unless `flag` holds, with `site` or with what is recorded already."""
        go_on = self.label("go")
        self.likely(flag, go_on, self._exit(site))
        self.place(go_on)

    def _exit(self, site: int | None) -> Label:
        """The one block that leaves with a site, or with what is recorded already (None)."""
        if site not in self._exits:
            self._exits[site], here = self.label("exit"), self.here
            self.here = self._exits[site]
            if site is None:
                self.line("ret i32 1")
            else:
                self.fail(site)
            self.here = here
            self.exits.add(f"%{self._exits[site].name}")
        return self._exits[site]

    def place_exits(self) -> None:
        """Behind all other blocks, those that several places leave by."""
        self.labels += self._exits.values()

    # -- fuel ----------------------------------------------------------------------------------------

    def _refuel(self) -> None:
        fresh = self.load("i64", self.gep("i8", self.ctx, i64(FUEL)))
        self.store(self.select(self.icmp("sgt", fresh, ONE), fresh, ONE), self.fuel)

    def burn(self, amount: V, exactly: bool = False) -> V:
        """Take `amount` off the fuel; whether some is left. `exactly`: it can only come down to 0."""
        left = self.op("sub", self.load("i64", self.fuel), amount)
        self.store(left, self.fuel)
        return self.icmp("ne" if exactly else "sgt", left, ZERO)

    def poll(self) -> None:
        """Let Python look at signals and re-arm the fuel; leaves where a handler raised."""
        self.module.declare("dlvm.poll", "i32", ["ptr"])
        if self._keeps:
            status = call_keeping(self, self._rare_poll(), "i32", [self.ctx])
        else:
            status = self.call("@dlvm.poll", "i32", [self.ctx])
        self.go_on_if(self.icmp("eq", status, V("i32", "0")))
        self._refuel()

    def _rare_poll(self) -> str:
        """The same as a function that keeps all registers, so that floats that loops hand on do not lie in memory."""
        name = "dlvm.rare_poll"
        if name not in self.module.functions:
            returned = kept_type(self, "i32")
            attributes = f"internal {KEEPS_REGISTERS} |noinline cold nounwind"
            c = Code(self.module, self.imports, name, returned, ["ptr"], attributes)
            c.line(f"ret {returned} {as_kept(c, c.call('@dlvm.poll', 'i32', c.params)).ref}")
        return name

    def give_fuel(self) -> None:
        """Put the fuel that is left where other kernels find it."""
        self.store(self.load("i64", self.fuel), self.gep("i8", self.ctx, i64(FUEL)))

    def take_fuel(self) -> None:
        """Go on with the fuel that another kernel has left."""
        self._refuel()

    def spend(self, amount: V) -> None:
        """Burn `amount`, and poll if that used the fuel up.

        Where the code is brief a call does it: LLVM follows a chain of differences through hundreds of blocks again and
        again.
        """
        if self.is_brief:
            self.module.declare("dlvm.burn", "i64", ["ptr", "i64", "i64"], "nounwind")
            left = self.call("@dlvm.burn", "i64", [self.ctx, self.load("i64", self.fuel), amount])
            self.go_on_if(self.icmp("sgt", left, ZERO))
            self.store(left, self.fuel)
            return
        go_on, empty = self.label("go"), self.label("empty")
        self.likely(self.burn(amount), go_on, empty)
        self.place(empty)
        self.poll()
        self.br(go_on)
        self.place(go_on)

    def charge(self, amount: V) -> None:
        """Burn the work of an array kernel, and poll if that used the fuel up."""
        if amount.ref.isdigit() and int(amount.ref) <= 64:
            return  # less than the loop around it takes for itself
        self.spend(amount)

    # -- alias metadata --------------------------------------------------------------------------------

    def _make_scopes(self) -> dict[Value, str]:
        # a tape is memory of its own: what may_alias says of pointers holds for stacks by identity
        roots = {p: None for p in self.function.params if isinstance(p.type, PointerType)}
        for i in self.function.instructions():
            if i.op.name in ("allocateHeap", "allocateStack", "pop", "drain", "createStack") and isinstance(
                i.type, PointerType | StackType
            ):
                roots[i] = None
        if len(roots) > MAX_SCOPES:
            return {}
        node = self.module.metadata.node
        domain = node(f'!"{self.name}"')
        return {r: node(f'!"{self.name}.{k}", {domain}') for k, r in enumerate(roots)}

    def _meet(self, a: Value, b: Value) -> bool:
        if isinstance(a.type, StackType) or isinstance(b.type, StackType):
            return a is b
        return self._alias.may_alias(a, b)

    def notes(self, value: Value) -> str:
        """The alias.scope and noalias metadata of accesses through a pointer or to a stack."""
        roots = self._alias.roots(value)
        if roots not in self._notes:
            self._notes[roots] = self._make_notes(roots)
        return self._notes[roots]

    def notes_of_one(self, notes: str) -> tuple[str, str]:
        """The metadata of accesses to the one array that a kernel writes, and what to add to those of what it reads.

        notes: those that accesses to this array have anyway. No leaf of the kernel is in it. Functions of many arrays
        have no scopes; LLVM could not see then that stores at computed places leave alone what the kernel reads.
        """
        if self._scopes:
            return notes, ""
        node = self.module.metadata.node
        domain = node(f'!"{self.name}"')
        scope = node(node(f'!"{self.name}.{len(self.module.metadata.nodes)}", {domain}'))
        return f"{notes}, !alias.scope {scope}", f", !noalias {scope}"

    def _make_notes(self, roots: frozenset[Value]) -> str:
        if not roots or not all(r in self._scopes for r in roots):
            return ""
        apart = [s for r, s in self._scopes.items() if not any(self._meet(r, ours) for ours in roots)]
        node = self.module.metadata.node
        scope = f", !alias.scope {node(', '.join(sorted(self._scopes[r] for r in roots)))}"
        return scope + (f", !noalias {node(', '.join(apart))}" if apart else "")
