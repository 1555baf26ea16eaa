"""Signals whose handler raises, as of a user who is tired of waiting."""

import contextlib
import signal

import pytest

_SENT = {signal.ITIMER_REAL: signal.SIGALRM, signal.ITIMER_PROF: signal.SIGPROF}


@contextlib.contextmanager
def raised_after(seconds, error, timer=signal.ITIMER_REAL):
    """A signal handler raises the error in the block if that takes so long; ITIMER_PROF is time of the processor."""

    def handler(*_):
        raise error

    before = signal.signal(_SENT[timer], handler)
    others = signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, *others)
        signal.signal(_SENT[timer], before)


@contextlib.contextmanager
def interrupted(seconds=0.05, error=KeyboardInterrupt):
    """The block does not end on its own, and what a signal handler raises gets out of it."""
    with pytest.raises(error), raised_after(seconds, error):
        yield
