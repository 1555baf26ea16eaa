"""JAX's derivatives of NPBench's kernels as the tests of DaCe's automatic differentiation make them, read from a clone.

Such a test has a port of the kernel in JAX, which returns the sum of one output, wraps it (`jax_kernel = lambda ...`)
so that its parameters are arguments of the kernel, and differentiates that (`jax.jit(jax.grad(jax_kernel, argnums=0))`)
beside a program of DaCe's that sums the same output. Of the module only what JAX needs is run: its literals and plain
functions, without annotations and decorators, so that DaCe need not be there. What is differentiated is read from its
text, which takes neither tool.
"""

import __future__

import ast
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class Test:
    """What a test differentiates. Names are those of the kernel's arguments in NPBench."""

    tree: ast.Module
    wrapped: ast.Lambda  # the port as a function of arguments of the kernel
    wrt: tuple
    static: tuple  # places of what JAX takes as constants
    of: tuple  # the output that is summed: an argument that is written, or the place of a result

    @property
    def parameters(self):
        """The arguments of the kernel that the derivative takes."""
        return [a.arg for a in self.wrapped.args.args]


def path(clone, kernel):
    """The file of a kernel's test, None if there is none."""
    names = (f"{kernel}_test.py", f"{kernel}_npbench_test.py")
    return next((p for n in names for p in sorted(Path(clone, "tests", "npbench").rglob(n))), None)


def read(clone, kernel):
    """The Test of a kernel, None if DaCe does not differentiate it."""
    file = path(clone, kernel)
    if file is None:
        return None
    tree = ast.parse(file.read_text(), str(file))
    nodes = list(ast.walk(tree))
    wrapped = next((n.value for n in nodes if isinstance(n, ast.Assign) and _is_wrapper(n)), None)
    if wrapped is None:
        return None
    parameters = [a.arg for a in wrapped.args.args]
    calls = {ast.unparse(n.func): n for n in nodes if isinstance(n, ast.Call)}
    wrt = _places(calls["jax.grad"], "argnums") or (0,)
    static = _places(calls["jax.jit"], "static_argnums")
    return Test(tree, wrapped, tuple(parameters[k] for k in wrt), static, _summed(nodes, parameters))


def derivative(test, jax):
    """The jitted derivative that a test calls, a function of the parameters of `test.wrapped`."""
    plain = [n for n in test.tree.body if _is_constant(n) or isinstance(n, ast.FunctionDef) and not n.decorator_list]
    space = {"np": np, "jax": jax, "jnp": jax.numpy, "lax": jax.lax}
    flags = __future__.annotations.compiler_flag
    exec(compile(ast.Module(plain, []), "test", "exec", flags, dont_inherit=True), space)
    kernel = eval(compile(ast.Expression(test.wrapped), "test", "eval"), space)
    wrt = [test.parameters.index(n) for n in test.wrt]
    return jax.jit(jax.grad(kernel, argnums=wrt), static_argnums=test.static)


def _is_constant(statement):
    """Whether a statement gives a name to a literal."""
    if not isinstance(statement, ast.Assign):
        return False
    try:
        ast.literal_eval(statement.value)
    except ValueError:
        return False
    return True


def _is_wrapper(assignment):
    """Whether an assignment is `jax_kernel = lambda ...`."""
    return isinstance(assignment.value, ast.Lambda) and ast.unparse(assignment.targets[0]) == "jax_kernel"


def _places(call, keyword):
    """The integers that a call has for a keyword, one or several; () if it has none."""
    found = [ast.literal_eval(k.value) for k in call.keywords if k.arg == keyword]
    return tuple(np.atleast_1d(found[0]).tolist()) if found else ()


def _summed(nodes, arguments):
    """What DaCe's program in the test sums: `B, D = kernel(A, p, r)` and `return np.sum(D)` are result 1."""
    for function in nodes:
        if isinstance(function, ast.FunctionDef) and isinstance(function.body[-1], ast.Return):
            value = function.body[-1].value
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "np.sum" and function.decorator_list:
                name = ast.unparse(value.args[0])
                if name in arguments:
                    return (name,)
                tuples = [t for s in function.body if isinstance(s, ast.Assign) for t in s.targets
                          if isinstance(t, ast.Tuple)]  # fmt: skip
                places = {ast.unparse(e): k for t in tuples for k, e in enumerate(t.elts)}
                return (places.get(name, 0),)
    raise ValueError("no program that sums an output")
