"""dlopt: reads programs of the IR, verifies them, runs passes on them, and prints or writes what comes out.

    dlopt model.dl -p AS CSE DCE              Source file: ./model.dl
                                              AD: changed
                                              AS: unchanged
                                              ...
                                              (an empty line, the module)

The differentiation of declared derivatives comes first, always. Messages and defaults are DLVM's.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from dlvm_py.driver import CLEAN_UP
from dlvm_py.errors import PassError
from dlvm_py.ir import Module, print_module
from dlvm_py.ir.analysis.alias import SHARED
from dlvm_py.ir.analysis.calls import callees
from dlvm_py.ir.verifier import verify
from dlvm_py.tools.common import STDIN, Failure, Parser, read_program, run_tool, write_file
from dlvm_py.tools.explain import AD, explain, pass_list
from dlvm_py.transforms import dead_calls, differentiate_module, lower_functions, lower_values, own_entry
from dlvm_py.transforms.pass_manager import Pass, find_pass

STAGE_AFTER = {"bufferize": "compute", "ownership": "scheduled"}
# the stages that a pass can be asked for in; from compute on the value of an array is what its trees read when they run
_STAGES = {"bufferize": ("optimizable",), "ownership": ("compute",), "value_promotion": ("raw", "optimizable")}

EPILOG = """
what it prints, on standard output, for each input:
  Source file: ./model.dl
  AD: changed                 every declared derivative has its body now
  CSE: unchanged              one line for each pass of --passes
                              and then, unless it writes files, an empty line and the module

passes are named by abbreviation (CSE), by name (simplify_cfg), or by DLVM's long name (DeadCodeElimination); they
run in the order given, a pass that is named twice runs twice. dlopt --list-passes lists them.

examples:
  dlopt model.dl                            differentiate and print
  dlopt model.dl -p AS CSE DCE              then simplify
  dlopt model.dl -p DCE -o out.dl           write out.dl instead of printing
  dlopt model.dl --verify-only              only say what is wrong
  dlopt - < model.dl                        read standard input
  dlopt --explain dot                       what an instruction is

exit status: 0, or 1 after an error, which is one `error:` line on standard error and where it is.
"""


def parser() -> Parser:
    """The command line."""
    p = Parser(
        prog="dlopt",
        usage="dlopt <inputs> [options]",
        description="DLVM IR optimizer: reads programs, differentiates, runs passes, prints or writes.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    p.add_argument("inputs", nargs="*", metavar="inputs", help="programs, .dl files; - is standard input")
    p.add_argument("-p", "--passes", nargs="+", action="extend", default=[], metavar="PASS", help="passes, in order")
    p.add_argument("-o", "--outputs", nargs="+", action="extend", default=[], metavar="FILE",
                   help="where to write, one for each input; - is standard output")  # fmt: skip
    p.add_argument("--print-ir", nargs="?", const="true", metavar="true|false",
                   help="print the module; false: write it, over the input without -o; true unless -o")  # fmt: skip
    p.add_argument("--no-verify", nargs="?", const="true", default="false", metavar="true|false",
                   help="do not verify after each pass")  # fmt: skip
    p.add_argument("--pipeline", choices=["original", "jit"], default="original",
                   help="original: AD, then --passes. jit: what dlvm.jit does with a Python function: inline, clean "
                   "up, AD, clean up; then --passes")  # fmt: skip
    p.add_argument("--print-after-all", action="store_true", help="print the module after each pass")
    p.add_argument("--time-passes", action="store_true", help="the seconds of each pass, on standard error")
    p.add_argument("--verify-only", action="store_true", help="read and verify, nothing else")
    p.add_argument("--locations", action="store_true", help="print with the source location of each instruction")
    p.add_argument("--list-passes", action="store_true", help="list the passes and stop")
    p.add_argument("--explain", metavar="OP", help="say what an instruction is and stop")
    p.add_argument("-h", "-help", "--help", action="store_true", help="show this and stop")
    return p


def main(arguments: list[str]) -> int:
    """Do what the arguments say; the exit status."""
    options = _options(arguments)
    if options.help:
        parser().print_help()
        return 0
    if options.list_passes:
        print(pass_list(), end="")
        return 0
    if options.explain is not None:
        print(explain(options.explain), end="")
        return 0
    if not options.inputs:
        raise Failure("expected arguments: input files\nusage: dlopt <inputs> [options]")
    if options.outputs and len(options.outputs) != len(options.inputs):
        raise Failure("number of inputs and outputs do not match")
    passes = _passes(options.passes)
    for path in options.inputs:
        if path != "-" and not Path(path).is_file():
            raise Failure(f"invalid input path: {path}")
    for k, path in enumerate(options.inputs):
        _one(path, options.outputs[k] if options.outputs else path, passes, options)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    p = parser()
    lists = {word for action in p._actions if action.nargs == "+" for word in action.option_strings}
    known = {word for action in p._actions for word in action.option_strings}
    for word in arguments:
        name = word.partition("=")[0]
        if word.startswith("-") and word != "-" and name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"\nDid you mean {near[0]}?" if near else ""
            raise Failure(f"unknown option {name}; use --help to list available options{hint}")
    given = [word.partition("=")[0] for word in arguments if word.startswith("-") and word != "-"]
    twice = next((name for name in given if given.count(name) > 1 and name not in lists), None)
    if twice is not None:
        raise Failure(f"option {twice} may be given once; use --help to print usage")
    # these take a value behind = only: what follows them is an input
    arguments = [f"{w}=true" if w in ("--print-ir", "--no-verify") else w for w in arguments]
    try:
        options = p.parse_args(arguments)
    except Failure as e:
        if "expected" in str(e) and "argument --" in str(e).replace("-p/", "").replace("-o/", ""):
            name = str(e).partition(":")[0].rpartition("/")[2].removeprefix("argument ")
            raise Failure(f"option {name} requires a value; use --help to print usage") from None
        if ": invalid choice: " in str(e):
            name, value = re.findall(r"argument (\S+): invalid choice: '(.*?)'", str(e))[0]
            raise Failure(f"unknown value '{value}' for argument {name}; use --help to print usage") from None
        raise
    default = "false" if options.outputs else "true"
    for name in ("print_ir", "no_verify"):
        value = getattr(options, name) or default
        if value not in ("true", "false"):
            flag = "--" + name.replace("_", "-")
            raise Failure(f"unknown value '{value}' for argument {flag}; use --help to print usage")
        setattr(options, name, value == "true")
    return options


def _passes(words: list[str]) -> list[Pass]:
    found = []
    for word in words:
        if word.lower() in ("ad", "differentiation", AD):
            print("note: 'AD' flag is redundant, differentiation pass is mandatory", file=sys.stderr)
            continue
        try:
            found.append(find_pass(word))
        except PassError:
            raise Failure(f"unknown value '{word}' for argument --passes; use --help to print usage") from None
    return found


def _one(path: str, output: str, passes: list[Pass], options: argparse.Namespace) -> None:
    quiet = output == "-" and not options.print_ir
    say: Callable[[str], None] = (lambda line: print(line, file=sys.stderr)) if quiet else print
    say(f"Source file: {_shown(path)}")
    module = read_program(path)
    if options.verify_only:
        return
    runner = Runner(module, say, verify_after=not options.no_verify, print_after=options.print_after_all)
    if options.pipeline == "jit":
        runner.functions(["inline", *CLEAN_UP])
    runner.differentiate()
    if options.pipeline == "jit":
        runner.functions(list(CLEAN_UP))
    for row in passes:
        say(f"{row.abbreviation}: {'changed' if runner.run(row) else 'unchanged'}")
        runner.after(row.abbreviation)
    if options.time_passes:
        for name, seconds in runner.times:
            print(f"{seconds:9.4f} s  {name}", file=sys.stderr)
    text = print_module(module, locations=options.locations)
    if options.print_ir:
        print(f"\n{text}")
    else:
        write_file(output, text)


class Runner:
    """Runs passes on a module, with what is said, checked and timed in between."""

    def __init__(self, module: Module, say: Callable[[str], None], verify_after: bool, print_after: bool) -> None:
        self.module = module
        self.say = say
        self.verify_after = verify_after
        self.print_after = print_after
        self.times: list[tuple[str, float]] = []

    def differentiate(self) -> None:
        """The pass AD."""
        start = time.perf_counter()
        changed = differentiate_module.run(self.module)
        self.times.append(("AD", time.perf_counter() - start))
        self.say(f"AD: {'changed' if changed else 'unchanged'}")
        self.after("AD")

    def functions(self, names: list[str]) -> None:
        """Passes of a fixed pipeline, which are not reported."""
        for name in names:
            self.run(find_pass(name))
            self.after(name)

    def run(self, row: Pass) -> bool:
        """One pass on every function that has a body; whether any of them changed."""
        start = time.perf_counter()
        changed = False
        if row.name in _STAGES:
            self._need_stage(row.name)
            if row.name == "bufferize":
                changed = lower_values.run(self.module)
                for name in self.module.functions:
                    lower_functions.check(self.module, name)
        functions = [f for f in self.module.functions.values() if f.blocks]
        loops = [f for f in functions if row.name != "cfg_canonicalization" and own_entry.run(f)]
        called = {name for f in functions for name in callees(f)}
        for function in functions:
            function.meta[SHARED] = bool(self.module.variables)
            if row.name == "dce":
                changed |= dead_calls.run(self.module, function.name)
            else:
                options = {"arrays_cross": True} if row.name == "cse" else {}  # they do in DLVM's programs
                if row.asks_alias:
                    # nobody looks at what the calls of the program pass
                    options["noalias_params"] = function.name not in called and not self.module.variables
                changed |= row.run(self.module, function.name) if row.on_module else row.run(function, **options)
        for function in loops:
            own_entry.undo(function)
        self.module.stage = STAGE_AFTER.get(row.name, self.module.stage)
        self.times.append((row.abbreviation, time.perf_counter() - start))
        return changed

    def _need_stage(self, name: str) -> None:
        if self.module.stage not in _STAGES[name]:
            raise Failure(f"the pass {name} needs the stage {' or '.join(_STAGES[name])}, not {self.module.stage}")

    def after(self, name: str) -> None:
        """Verify and print, as asked."""
        if self.verify_after:
            try:
                verify(self.module)
            except Exception as e:
                e.add_note(f"after the pass {name}")
                raise
        if self.print_after:
            self.say(f"// after {name}\n{print_module(self.module)}")


def _shown(path: str) -> str:
    """Relative to the working directory if below it, else absolute."""
    if path == "-":
        return STDIN
    whole, here = Path(path).resolve(), Path.cwd().resolve()
    return f"./{whole.relative_to(here)}" if whole.is_relative_to(here) else str(whole)


def run() -> None:
    """The console script."""
    sys.exit(run_tool(main, sys.argv[1:]))


if __name__ == "__main__":
    run()
