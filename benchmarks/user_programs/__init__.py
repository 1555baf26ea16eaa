"""Programs as users write them by loops; each module has those of one field, and PROGRAMS all of them."""

from user_programs import (  # noqa: F401 (each adds its own)
    arithmetic,
    geometry,
    graphs,
    images,
    matrices,
    records,
    signals,
    simulations,
    sorting,
    tables,
    words,
)
from user_programs.registry import PROGRAMS as PROGRAMS
