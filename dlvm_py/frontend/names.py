"""Names: how they are bound and read, as Python resolves them; `import`, `global` and `del`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import gast

from dlvm_py.errors import TypeMismatch, UnknownName, UnsupportedSyntax
from dlvm_py.frontend import lists, objects, records, tables
from dlvm_py.frontend.capture import imported_module, imported_name
from dlvm_py.frontend.emit import Unreachable
from dlvm_py.frontend.liveness import comprehended
from dlvm_py.frontend.matching import Matching
from dlvm_py.frontend.merges import unbound_message
from dlvm_py.frontend.values import Binding, Conflict, Object, Record, Ref, SliceKey
from dlvm_py.ir import literal
from dlvm_py.ir.exceptions import exception_class

if TYPE_CHECKING:
    from dlvm_py.frontend.frame import Frame


class Names(Matching):
    """The part of a Frame that binds and reads names."""

    def _import(self, node: Any) -> None:
        """`import` binds modules and what they hold now, as constants; a failing one raises where it stands."""
        level = getattr(node, "level", None) or 0
        for alias in node.names:
            try:
                if isinstance(node, gast.ImportFrom):
                    module = imported_module(self.function, node.module or "", level)
                    found = self.e.session.captures.value_of(
                        module.__dict__, alias.name, imported_name(module, alias.name)
                    )
                else:
                    found = imported_module(self.function, alias.name, 0)
            except ImportError as error:
                kind = type(error) if exception_class(type(error).__name__) is type(error) else ImportError
                message = str(error).replace("{", "{{").replace("}", "}}")
                self.e.emit("raise", exception=kind.__name__, message=message)
                raise Unreachable from None
            name = alias.asname or alias.name
            if isinstance(node, gast.Import) and not alias.asname:
                name = alias.name.partition(".")[0]
                found = sys.modules[name]
            self.assign_name(name, self.e.session.lift(self.e, found, name))

    def assign_name(self, name: str, value: Any) -> None:
        """Bind a local name, or one of an enclosing function that is declared `nonlocal`."""
        binding = Binding(value, self.e.loc)
        if name in self.cells:
            self._fill_cell(self.env, name, binding)
        elif name in self.nonlocals:
            owner, own = self._owner_of(name)
            if own not in owner.env:
                self.e.error(
                    UnsupportedSyntax,
                    f"`{own}` has no value yet in {owner.name}, where it belongs to",
                    help=f"give it one before {self.name} is called",
                )
            self.env[owner.env[own].value.key] = binding
        else:
            self.env[name] = binding

    def _fill_cell(self, env: dict[str, Binding], name: str, binding: Binding) -> None:
        """Bind a name that nested functions rebind: the object stays, what it holds is new."""
        held, count = env.get(name), 0
        if held is not None and isinstance(held.value, Conflict):
            held = None  # two paths made an object each: whoever looks it up from here on finds a new one
        if held is None or held.is_set is not None:
            while held is None and f"{objects.PREFIX}.cell.{name}.{count}" in env:
                count += 1
            cell = Object(f"{objects.PREFIX}.cell.{name}.{count}") if held is None else held.value
            env[name] = held = Binding(cell, binding.loc)
        env[held.value.key] = binding

    def _owner_of(self, name: str) -> tuple[Frame, str]:
        """The frame of the function that a `nonlocal` name belongs to, and its name there."""
        own, _, number = name.partition(".")
        owner = self.outer
        if number and number in self.scopes:
            name, owner = own, self.scopes[number].outer
        while owner is not None and name not in owner.cells:
            owner = owner.outer
        assert owner is not None  # Python's compiler has looked
        return owner, name

    def read_name(self, name: str) -> Any:
        """The value of a name as Python resolves it: local, enclosing function, global, built-in."""
        if name in self.locals or name in self.shadowed:
            return self._read_local(name)
        own, _, number = name.partition(".")
        if number and number in self.scopes:  # of a generator
            scope = self.scopes[number]
            if scope.outer is not None:
                return scope.outer.read_name(own)
            return self.e.session.outside(self.e, scope.function, own)
        if self.outer is not None:
            return self.outer.read_name(name)
        if name not in self.function.__globals__ and name in comprehended(self.source.node):
            self.e.error(
                UnsupportedSyntax,
                f"a function that a comprehension has made reads its `{name}` after its end, where it is the last one",
                help=f"give it as a default, lambda v, {name}={name}: ...",
            )
        return self.e.session.outside(self.e, self.function, name)

    def _read_local(self, name: str) -> Any:
        binding = self.env.get(name)
        if binding is None:
            # an earlier iteration may have set it
            if name not in self.shadowed and any(name in c.assigned for c in self.loops):
                self.e.emit("raise", exception="UnboundLocalError", message=unbound_message(name))
                raise Unreachable
            self.e.error(UnknownName, unbound_message(name), help="assign it on every path before it is read")
        if isinstance(binding.value, Conflict):
            self.require_several(name)
            self._conflict(binding.value, f"`{name.partition('.')[0]}`")
        self.raise_if_unset(name, binding, self.e.loc)
        if name in self.cells:
            held = self.e.frame.env[binding.value.key].value
            if isinstance(held, Conflict):
                self.require_several(binding.value.key)
                self._conflict(held, f"`{name}`")
            return held
        return binding.value

    def _conflict(self, conflict: Conflict, what: str) -> None:
        places = " and ".join(f"line {p.line}" for p in conflict.places if p is not None)
        verb = "returned" if what == "the result" else "assigned"
        where = f" ({verb} in {places})" if places else ""
        hint = (
            "give both paths values of one type"
            if what == "the result"
            else "use two names, or give both paths values of one type"
        )
        self.e.error(
            TypeMismatch,
            conflict.said_of(what, where),
            help=conflict.help or hint,
        )

    def _global(self, node: Any) -> None:
        """`global` names that are read are those of the module anyway."""
        for name in node.names:
            if name in self.locals:
                reason = f"`global` {name} is assigned: compiled code reads globals"
                self.e.error(UnsupportedSyntax, reason, help="return the value")

    def _delete(self, target: Any) -> None:
        if isinstance(target, gast.Name):
            if target.id in self.cells or target.id in self.nonlocals:
                self.e.error(UnsupportedSyntax, "`del` of a name that nested functions rebind is not supported")
            binding = self.env.get(target.id)
            self.read_name(target.id)
            if binding is not None:  # it goes on being there, unset, so that loops and branches know what it was
                self.env[target.id] = Binding(binding.value, self.e.loc, literal(False))
            return
        if isinstance(target, gast.Subscript):
            base, index = self.expression(target.value), self.index(target.slice)
            held = objects.contents(self.e, base)
            with self.at(target):
                if isinstance(base, Object) and tables.is_table(held):
                    tables.delete_item(self.e, base, index)
                    return
                if isinstance(held, Record) and isinstance(base, Object):
                    records.delete_item(self.e, base, index)
                    return
                if isinstance(base, Object | Ref) and not isinstance(index, SliceKey):
                    lists.delete_item(self.e, base, index)
                    return
        with self.at(target):
            self.e.error(UnsupportedSyntax, "this cannot be deleted", help="del name, del d['key'], del items[k]")
