"""The Python back end: IR at stage optimizable to the text of plain NumPy functions.

folding.py     which instructions are written where their value is used, and which are statements
variables.py   out of SSA: values that share a variable, and the variables' names
structure.py   the CFG as loops and branches
spelling.py    how each op is written; helpers.py what the text brings along for ops without a NumPy spelling
function.py    one function; program.py the whole text
"""
