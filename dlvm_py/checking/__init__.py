"""What dlvm.check does: a function of the user tested against plain Python and against differences."""
