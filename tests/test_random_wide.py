"""Random programs of the whole language (random_wide.py), checked as random_checks.py says."""

import pytest
from random_checks import check

pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # plain NumPy code gives them


def check_seeds(seeds, shares):
    """Check the programs of these seeds; all that are wrong are named."""
    wrong = []
    for seed in seeds:
        try:
            check(seed, shares)
        except AssertionError as error:
            wrong.append(f"seed {seed}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("chunk", range(11))
def test_programs(chunk):
    """Seven small programs: every gradient against differences and forward mode, a share by every executor."""
    check_seeds(range(7 * chunk, 7 * chunk + 7), "quick")


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(400))
def test_programs_slow(chunk):
    """With the other tests of random programs about 10,000."""
    check_seeds(range(10_000 + 25 * chunk, 10_025 + 25 * chunk), "sweep")


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(40))
def test_programs_as_shipped_slow(chunk):
    """Larger programs, all in native code as users have it."""
    check_seeds(range(50_000 + 5 * chunk, 50_005 + 5 * chunk), "shipped")


def test_a_program_that_was_refused_by_a_crash():
    """A name of nested functions that two paths bind anew has an object for each of them."""
    assert "program" in check(101_141, "quick")
