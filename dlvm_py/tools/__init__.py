"""The command line: dlopt, which transforms programs of the IR, and dlc, which compiles and runs them."""
