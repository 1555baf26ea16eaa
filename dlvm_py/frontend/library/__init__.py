"""NumPy functions that are written in the language that dlvm_py compiles.

A module here holds plain functions on NumPy arrays, with the parameters that NumPy's have, and tables `FUNCTIONS`
(NumPy's function → ours) and `METHODS` (name of an array's method → ours), which table.py collects. A call of
np.flip in compiled code is translated as the body of our `flip`, in place:

* what is known when it is compiled stays known: an axis, a dtype, None, a string, the rank of an array. An `if` on
  such a value has one branch, so that one function serves all keyword forms;
* whatever goes wrong is reported at the user's line: compile-time refusals (`refuse`) as well as `raise`;
* the derivative is that of the body.

The functions run in plain Python too: the tests compare them with NumPy's in both ways. They may call each other,
NumPy functions with a rule, and the compile-time functions of intrinsics.py.
"""
