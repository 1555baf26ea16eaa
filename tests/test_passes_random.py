"""Every pass, alone and in any order, keeps what random programs do, and keeps the IR valid."""

import random

import pytest
from random_ir import observe, random_program

from dlvm_py.ir import print_module
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import (
    algebra_simplification,
    carried_scalars,
    cfg_canonicalization,
    constant_fold,
    constant_propagation,
    cse,
    dce,
    inline,
    licm,
    literal_broadcasting_promotion,
    merge_stores,
    proven_checks,
    redundant_load,
    simplify_cfg,
    stack_promotion,
    value_numbering,
    value_promotion,
)

PASSES = {
    "inline": lambda module: inline.run(module, "main"),
    "simplify_cfg": lambda module: simplify_cfg.run(module.functions["main"]),
    "constant_fold": lambda module: constant_fold.run(module.functions["main"]),
    "constant_propagation": lambda module: constant_propagation.run(module.functions["main"]),
    "cse": lambda module: cse.run(module.functions["main"]),
    "redundant_load": lambda module: redundant_load.run(module.functions["main"]),
    "dce": lambda module: dce.run(module.functions["main"]),
    "licm": lambda module: licm.run(module.functions["main"]),
    "stack_promotion": lambda module: stack_promotion.run(module.functions["main"]),
    "value_numbering": lambda module: value_numbering.run(module.functions["main"]),
    "value_promotion": lambda module: value_promotion.run(module.functions["main"]),
    "proven_checks": lambda module: proven_checks.run(module.functions["main"]),
    "merge_stores": lambda module: merge_stores.run(module.functions["main"]),
    "carried_scalars": lambda module: carried_scalars.run(module.functions["main"]),
    "exact algebra": lambda module: algebra_simplification.run(module.functions["main"], exact_only=True),
    "literal_broadcasting_promotion": lambda module: literal_broadcasting_promotion.run(module.functions["main"]),
    "cfg_canonicalization": lambda module: cfg_canonicalization.run(module.functions["main"]),
}


def hold_the_law(seed, size, names):
    """Run passes on one program; after each the outcome is the same, the IR valid, `changed` truthful."""
    program = random_program(seed, size)
    module = program.module
    verify(module)
    expected = observe(module, "main", program.arguments())
    for k, name in enumerate(names):
        before = print_module(module)
        changed = PASSES[name](module)
        history = f"seed {seed}: {' '.join(names[: k + 1])}"
        assert changed == (print_module(module) != before), history
        verify(module)
        assert observe(module, "main", program.arguments()) == expected, history
        assert not PASSES[name](module), f"{history}: the second run finds more"


def test_programs_are_reproducible():
    """A seed makes one program, and running it twice shows the same."""
    first, second = random_program(3), random_program(3)
    assert str(first) == str(second)
    outcomes = [observe(p.module, "main", p.arguments()) for p in (first, second)]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_keeps_programs(name):
    """One pass alone, on raw IR."""
    for seed in range(30):
        hold_the_law(seed, 12, [name])


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_passes_in_any_order_keep_programs(start):
    """All passes twice over, in an order that the seed picks."""
    for seed in range(start, start + 10):
        order = random.Random(seed).sample(list(PASSES), len(PASSES))
        hold_the_law(100 + seed, 12, order * 2)


@pytest.mark.slow
def test_large_programs():
    """Bigger programs with deeper nests, and inlining first, as the pipeline does it."""
    for seed in range(60):
        order = random.Random(seed).sample(list(PASSES), len(PASSES))
        hold_the_law(10_000 + seed, 40, ["inline", *order, *order])
