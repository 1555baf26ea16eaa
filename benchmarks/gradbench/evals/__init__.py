"""The programs of the evals, in plain NumPy style, with their derivatives: FUNCTIONS of each module."""
