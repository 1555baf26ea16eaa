"""The tool's side of GradBench's protocol: a JSON message a line on standard input, a response each on the output.

https://github.com/gradbench/gradbench, CONTRIBUTING.md.
"""

import json
import sys
import traceback


def serve(name, define, evaluate):
    """Answers every message until there are no more.

    define(eval) and evaluate(eval, function, input) give responses; what they raise is one, too.
    """
    for line in sys.stdin:
        message = json.loads(line)
        try:
            response = _response(message, name, define, evaluate)
        except Exception:
            response = {"success": False, "error": traceback.format_exc()}
        print(json.dumps({"id": message["id"], **response}), flush=True)


def _response(message, name, define, evaluate):
    match message["kind"]:
        case "start":
            return {"tool": name}
        case "define":
            return define(message["module"])
        case "evaluate":
            return evaluate(message["module"], message["function"], message["input"])
    return {}
