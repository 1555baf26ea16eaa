"""Views alias as NumPy's do: stores through them, and assignments whose two sides overlap."""

import numpy as np
import pytest
from indexing import check, check_gradient

import dlvm_py as dlvm
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.ir import interpreter

rng = np.random.default_rng(2)
X, CUBE = rng.standard_normal((4, 5)), rng.standard_normal((2, 3, 4))


def shifted(a):
    a[1:] = a[:-1]
    a[:, 1:] += a[:, :-1]
    return a


def turned(a):
    a[::-1] = a
    a[::-1, ::-1] -= a
    return a


def flipped(a):
    b = np.flip(a, 0)
    b[1:] = b[:-1] * 2
    c = a.T
    c[0] = c[1]
    d = np.rot90(a)
    d[0, 0] = 9
    return a, b, c, d


def new_axes(a):
    b = a[None, :, None]
    b[0, 1] = 5
    c = np.moveaxis(a, 0, 1)
    c[2] += 1
    d = np.squeeze(b, 0)
    d[0, 0] = -1
    return a, np.squeeze(b)


def at_least(a):
    b = np.atleast_2d(a[0])
    b[0, 0] = 3
    c = np.atleast_3d(a)
    c[1, 1, 0] = 4
    return a, b, c


def rows_exchanged(a):
    a[[0, 1]] = a[[1, 0]]
    a[:, [0, 1]] = a[:, [1, 0]]
    return a


def selected_of_a_view(a):
    w = a[::-1, ::2]
    w[[0, 2], [1, 2]] = 7
    w[w < 0] = 0
    return a


def selections_are_copies(a):
    m = a > 0
    b = a[m]
    b *= 2
    a[m] = b
    c = a[[0, 1]]
    c[:] = 0
    return a, b, c


def stretched(a):
    return np.broadcast_to(a[0], (3, 5)) * 2, a[np.newaxis, ..., 1:2]


def along_diagonals(a):
    return np.diagonal(a), np.diagonal(a, -2), np.diagonal(a, 9), np.diagonal(a.T, 1), np.diag(a[::2, ::-1])


PROGRAMS = [
    shifted, turned, flipped, new_axes, at_least, rows_exchanged, selected_of_a_view, selections_are_copies, stretched,
    along_diagonals,
]  # fmt: skip


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    """The IR verifier runs after every pass."""
    monkeypatch.setenv("DLVM_VERIFY", "1")


@pytest.mark.parametrize("f", PROGRAMS, ids=[f.__name__ for f in PROGRAMS])
def test_as_numpy(f):
    """Results and what is written."""
    check(f, X)


def test_diagonals_of_several_axes():
    """Any two axes, the offset known or not when the code is compiled."""
    check(lambda a: (np.diagonal(a, 0, 0, 2), np.diagonal(a, 1, 2, 1), a.diagonal(-1, 1, 2)), CUBE)
    check(lambda a, k: np.diagonal(a, k), X, -1)


def test_gradient_through_a_diagonal():
    """The adjoint of a diagonal is the diagonal of the adjoint, also where the memory is written in between."""

    def f(a):
        b = a * a
        d = np.diagonal(b, 1)
        b[0, 1] *= 3
        return np.sum(d**2) + np.sum(np.diag(b) ** 3)

    check_gradient(f, X)


def test_two_parts_of_a_small_array_are_returned():
    """The first part may be as long as the allocation for all that is known: the others still have their elements."""

    def halves(m):
        out = np.zeros(2 * m) + 1.5
        out[m] = 2.5
        return out[:m], out[m:], out[m:][::-1]

    compiled = dlvm.jit(halves)
    for _ in range(3):  # the first call goes through another entry than the others
        for got, want in zip(compiled(2), halves(2), strict=True):
            np.testing.assert_array_equal(got, want)
    head, tail, mirrored = compiled(2)
    tail[1] = 7.0
    assert mirrored[0] == 7.0 and head.tolist() == [1.5, 1.5]


def windows_of_written(x):
    total = 0.0
    for k in range(1, 4):
        parts = np.lib.stride_tricks.sliding_window_view(x, k)
        x[k] = total * 0.1
        for j in range(parts.shape[0]):
            total += np.sum(np.sin(parts[j] * k)) + parts[j, 0]
    return total


def windows_of_a_matrix(x, w):
    parts = np.lib.stride_tricks.sliding_window_view(x, (2, 3))
    return np.sum(np.tanh(np.einsum("ijkl,kl->ij", parts, w)))


def test_windows_are_views_that_are_differentiated():
    """Elements that several windows share take what all of them give; writes to the array are seen in them."""
    rng = np.random.default_rng(0)
    for f, args in (
        (windows_of_written, (rng.standard_normal(9),)),
        (windows_of_a_matrix, (rng.standard_normal((6, 7)), rng.standard_normal((2, 3)))),
    ):
        along, h = [rng.standard_normal(a.shape) for a in args], 1e-6
        up, down = (f(*(a + s * d for a, d in zip(args, along, strict=True))) for s in (h, -h))
        assert dlvm.jit(f)(*(a.copy() for a in args)) == pytest.approx(f(*(a.copy() for a in args)), rel=1e-13)
        found = dlvm.grad(f, wrt=tuple(range(len(args))))(*args)
        ours = sum(np.sum(g * d) for g, d in zip(found, along, strict=True))
        assert ours == pytest.approx((up - down) / (2 * h), rel=1e-6)
        assert dlvm.jvp(f, args, tuple(along))[1] == pytest.approx(ours, rel=1e-12)


def test_views_that_are_copies_here_never_show_old_numbers():
    """What a view of NumPy's would show of a later write is refused, unless nobody looks."""

    def broadcast(x):
        b = np.broadcast_to(x, (3, *x.shape))
        x[0] = 5.0
        return np.sum(b)

    def together(x):
        b, _ = np.broadcast_arrays(x, np.ones((3, *x.shape)))
        x += 1.0
        return b[1, 2]

    def reshaped(x):
        b = np.expand_dims(x.T, 0).reshape(x.shape[1], 2, x.shape[0] // 2)
        x[0] = 5.0
        return np.sum(b)

    def of_a_copy(x):
        b, _ = np.meshgrid(x[:, 0], x[:, 1], copy=False)
        x[0] = 5.0
        return np.sum(b)

    def contiguous(x):
        b = np.ascontiguousarray(x[:, ::2])
        x[0] = 5.0
        return np.sum(b)

    for f in (broadcast, together, reshaped, of_a_copy, contiguous):
        with pytest.raises(dlvm.UnsupportedSyntax, match="of which NumPy may have a view"):
            dlvm.jit(f)(rng.random((4, 6)))
    same = np.arange(4.0)
    with pytest.raises(dlvm.UnsupportedSyntax, match="of which NumPy may have a view"):
        dlvm.jit(lambda x, y: written_beside(x, y))(same, same)


def written_beside(x, y):
    b = np.broadcast_to(x, (2, x.shape[0]))
    y[0] = 7.0
    return b * 2


def made_again(x, y):
    total = 0.0
    for i in range(3):
        b = np.broadcast_to(x, (3, *x.shape))
        total += b[1, 2]
        y[0] = x[i] = total
    return total


def certain_copies(x, y):
    a, b, c = np.ravel(x.T), np.ascontiguousarray(x.T), np.asfortranarray(x)
    x[0] = 5.0
    return a + 0.0, b, c * 1.0


def the_same_array(x, y):
    a, b = np.ascontiguousarray(x), np.asfortranarray(x.T)
    x[0] = 5.0
    b[1] = 3.0
    a[2, 2] = y[0]
    return a * 1.0, b


@pytest.mark.parametrize("f", [written_beside, made_again, certain_copies, the_same_array])
def test_views_and_copies_as_numpy_has_them(f):
    rank = 1 if f in (written_beside, made_again) else 2
    check(f, rng.random((4, 6)[:rank]), rng.random(3))


def returned(x, w, n):
    return np.lib.stride_tricks.sliding_window_view(x, 3)


def chosen(x, w, n):
    if n:
        r = np.lib.stride_tricks.sliding_window_view(x, 3)
    else:
        r = x.reshape(5, 1)
    return r


def chosen_and_read(x, w, n):
    r = np.lib.stride_tricks.sliding_window_view(x, 3)
    for _ in range(n):
        r = np.lib.stride_tricks.sliding_window_view(x, 3)[:, ::-1]
    return np.sum(r * w)


def handed_on(x, w, n):
    def down(v, n):
        return np.sum(v * w) if n == 0 else down(v, n - 1)

    return down(np.lib.stride_tricks.sliding_window_view(x, 3), n)


@pytest.mark.parametrize("fn", [returned, chosen, chosen_and_read, handed_on])
def test_every_place_of_an_element_counts(fn):
    """The gradient of a view that shows an element at several places, returned, chosen by a branch or handed on."""
    x, w = np.arange(1.0, 6.0), np.arange(9.0).reshape(3, 3)
    want = np.array([np.sum(fn(e, w, 1)) for e in np.eye(5)])  # it is linear in x
    program = dlvm.grad(fn).program(x, w, 1, stage="optimizable")
    scope = {}
    exec(dlvm.grad(fn).source(x, w, 1), scope)
    assert np.array_equal(dlvm.grad(fn)(x, w, 1), want)
    assert np.array_equal(interpreter.run(program.module, program.name, [x, w, np.int64(1)]), want)
    assert np.array_equal(scope[f"{fn.__name__}_grad"](x, w, 1), want)


def test_derivatives_flow_between_complex_numbers_and_their_parts():
    """x.view(complex) has the numbers of x by twos, z.view(float) those of z: here Σ 5 |z|⁴."""

    def f(x):
        z = x.view(complex)
        return np.sum((z * z * (1 + 2j)).view(float) ** 2)

    x = np.array([1.0, -2.0, 0.5, 3.0])
    program = dlvm.grad(f).program(x, stage="optimizable")
    want = 20 * np.repeat(np.abs(x.view(complex)) ** 2, 2) * x
    assert interpreter.run(program.module, program.name, [x]) == pytest.approx(want, rel=1e-14)


@pytest.mark.parametrize("offset", [8, 4])
def test_a_buffer_from_an_offset_of_the_call_on(offset):
    """Whole elements carry derivatives; the array may begin within one, and so no write shows in the other array."""
    x = np.arange(1.0, 6.0)

    def f(x, offset):
        return np.frombuffer(x, offset=offset, count=2)

    def written(x, offset):
        np.frombuffer(x, offset=offset, count=2)[0] = 7.0
        return x * 2

    def within(x):
        np.frombuffer(x, offset=4, count=2)[0] = 7.0
        return x * 2

    assert np.array_equal(dlvm.jit(f)(x, offset), f(x, offset))
    want = [0.0, 4.0, 6.0, 0.0, 0.0] if offset % 8 == 0 else np.zeros(5)
    assert np.array_equal(dlvm.grad(lambda x, offset: np.sum(f(x, offset) ** 2))(x, offset), want)
    for refused, args in ((written, (x, offset)), (within, (x,))):
        with pytest.raises(dlvm.UnsupportedSyntax, match="writing to it is not supported"):
            dlvm.jit(refused)(*args)


@pytest.mark.parametrize("whole", [
    lambda x: x.T is x,
    lambda x: x[:] is x,
    lambda x: x[...] is x,
    lambda x: x.ravel() is x,
    lambda x: x.view() is x,
    lambda x: np.transpose(x) is x,
    lambda x: np.expand_dims(x, ()) is x,
    lambda x: np.flip(x, ()) is x,
    lambda x: np.einsum("i->i", x) is x,
])  # fmt: skip
def test_a_view_of_all_of_an_array_is_another_object(whole):
    """Refused where the compiler cannot tell, but never taken for the array itself."""
    with pytest.raises(dlvm.CompileError, match="whether these two arrays are one object"):
        dlvm.jit(whole, cache=False)(np.ones(3))


def test_an_array_is_itself():
    def f(x, y):
        z = x
        return z is x, x is not z, x is None

    assert dlvm.jit(f, cache=False)(np.ones(3), np.ones(3)) == (True, False, False)


def test_a_column_of_contiguous_memory_has_one_version(monkeypatch):
    asked = []
    plain = Tree.stride_conditions
    monkeypatch.setattr(Tree, "stride_conditions", lambda tree: asked.append(plain(tree)) or asked[-1])

    @dlvm.jit(cache=False)
    def shift(x, y):
        m = np.outer(y, y)
        m[:, 0] = m[:, -1] + 2.0 * m[:, 1] - x
        m[0, ::2] *= 0.5
        return m, np.sum(m[:, 0] * m[:, -1])

    for n in (3, 1000):
        x, y = np.arange(2.0 * n)[::2], np.linspace(1.0, 2.0, n)
        for found, wanted in zip(shift(x, y), shift.__wrapped__(x, y), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert sum(map(len, asked)) == 1  # of x, which is the caller's
    one = dlvm.jit(lambda x: x[:, 0] * 2.0 + x[:, -1], cache=False)
    for x in (np.arange(5.0)[:, None], np.arange(10.0).reshape(5, 2), np.arange(10.0).reshape(2, 5).T):
        np.testing.assert_array_equal(one(x), x[:, 0] * 2.0 + x[:, -1])


def through_broadcast_arrays(a):
    u, v = np.broadcast_arrays(a, a)
    u[0] = 3.0
    v[:, 1:] += u[:, :-1]
    return a * 1.0, np.broadcast_arrays(a, 2.0)[0] is a


def through_a_diagonal(a):
    u = np.einsum("ii->i", a[:4, :4])
    u *= 2.0
    u[1] = a[0, 0]
    return u + np.einsum("iij->ji", a[:4, :4, None])[0], a * 1.0


def through_a_line(a):
    b = a[0].copy()
    u = np.asfortranarray(b[:, None])
    u[1] = 5.0
    return b, u


@pytest.mark.parametrize("fn", [through_broadcast_arrays, through_a_diagonal, through_a_line])
@pytest.mark.parametrize("array", [X, np.asfortranarray(X), np.tile(X, (2, 2))[::2, ::2]], ids=["C", "F", "S"])
def test_what_is_no_copy_is_written_through(fn, array):
    got, want = array.copy(order="A"), array.copy(order="A")
    for found, wanted in zip(dlvm.jit(fn)(got), fn(want), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(got, want)


def test_stretched_views_are_not_written():
    """NumPy's share memory, so that a write to one place shows in others."""

    def one(a):
        u = np.broadcast_arrays(a, a[0])[1]
        u[0] = 1.0
        return u

    def two(a):
        u = np.meshgrid(a[0], a[0], copy=False)[0]
        u[0] = 1.0
        return u

    def three(a):
        u = np.broadcast_to(a, a.shape)
        u += 1.0
        return u

    for fn in (one, two, three):
        with pytest.raises(dlvm.CompileError, match="writing to it is not supported"):
            dlvm.jit(fn)(X.copy())


def test_an_output_that_is_too_small_says_so():
    def f(a, b):
        a *= np.sin(b)[1:] * b[1:]

    compiled = dlvm.jit(f)
    for n in (3, 5):
        with pytest.raises(ValueError, match="non-broadcastable") as wanted:
            f(np.ones(1), np.ones(n))
        with pytest.raises(ValueError) as found:
            compiled(np.ones(1), np.ones(n))
        assert str(found.value) == str(wanted.value)


def test_what_numpy_lays_out_in_columns_is_copied_by_a_reshape():
    """Its memory may be in rows here: a view of that would show writes that NumPy's copy does not."""

    def of_expression(a):
        y = a.T * 2.0
        z = y.ravel()
        z[0] = 7.0
        return y

    def of_shape(a):
        y = np.exp(a.T)
        z = y.reshape(2, 6)
        z[0, 0] = 7.0
        return y

    def of_copy(a):
        y = np.asfortranarray(a)
        z = y.ravel()
        z[0] = 7.0
        return y

    def of_array(a):
        y = np.array(a.T)
        z = y.ravel()
        z[0] = 7.0
        return y

    def of_kept(a):
        y = a.T.copy(order="K")
        z = y.ravel()
        z[0] = 7.0
        return y

    a = np.random.default_rng(0).random((3, 4))
    for f in (of_expression, of_shape, of_copy, of_array, of_kept):
        with pytest.raises(dlvm.UnsupportedSyntax, match="may be a copy where NumPy makes a view"):
            dlvm.jit(f)(a)

    def read(a):
        y = a.T * 2.0
        return y.ravel(), y.reshape(2, 6), np.asfortranarray(a).ravel(), np.array(a.T).ravel(), np.copy(a.T).ravel()

    for x, y in zip(dlvm.jit(read)(a), read(a), strict=True):
        assert x.tobytes() == y.tobytes() and x.shape == y.shape
    order = dlvm.jit(lambda a: np.asfortranarray(a))(a)
    assert order.flags.f_contiguous and np.array_equal(order, a)



MAKERS = (
    lambda a: np.zeros_like(a), lambda a: np.full_like(a, 3), lambda a: a == 2, lambda a: a * 2 + 1,
    lambda a: a.astype(np.float64), lambda a: np.sort(a, axis=0), lambda a: np.cumsum(a, axis=0),
    lambda a: np.fmod(a, 2), lambda a: np.stack((a, a)), lambda a: np.sum(a[None], axis=0), lambda a: (a * 2).T,
    lambda a: np.polyval([1, 2], a), lambda a: np.conj(a), lambda a: a.copy(), lambda a: np.array(a, order="C"),
    lambda a: a * np.arange(2.0)[:, None, None, None], lambda a: a[None] * np.arange(2.0)[:, None, None, None],
)  # fmt: skip
CUBE = np.arange(24.0).reshape(2, 3, 4)


def writer(make):
    """A function that writes what `make` gives through its reshape."""

    def write(a):
        z = make(a)
        z.reshape(-1)[1] = 77
        return z

    return write


@pytest.mark.parametrize("make", MAKERS, ids=range(len(MAKERS)))
def test_writes_to_a_reshape_show_as_in_numpy_or_are_refused(make):
    """NumPy's results lie as their operands do: it depends on their order whether a reshape is a view or a copy."""
    write = writer(make)
    # in columns; with permuted axes; with rows that run backwards
    for a in (np.asfortranarray(CUBE), CUBE.transpose(2, 0, 1), CUBE.T[::-1]):
        try:
            found = dlvm.jit(write)(a)
        except dlvm.UnsupportedSyntax as error:
            assert "may be a copy where NumPy makes a view" in str(error)
        else:
            assert np.array_equal(found, write(a))


def test_reshapes_of_what_may_lie_in_columns():
    def read(a):
        return np.zeros_like(a).ravel(), (a == 2).reshape(-1), np.sort(a, axis=0).reshape(4, 6), (a * 2).T.reshape(-1)

    for a in (np.asfortranarray(CUBE), CUBE.transpose(2, 0, 1)):
        for x, y in zip(dlvm.jit(read)(a), read(a), strict=True):
            assert np.array_equal(x, y)


def test_what_is_certainly_in_rows_is_written_through_its_reshape():
    for make in (*MAKERS[:4], lambda a: a[:, 1:] * 2, lambda a: np.zeros_like(a[:, :, ::2]), lambda a: a.T.copy()):
        write = writer(make)
        found = dlvm.jit(write)(CUBE)
        assert np.array_equal(found, write(CUBE)) and found.reshape(-1)[1] == make(CUBE).dtype.type(77)


def joined(a):
    y = a * 2
    for _ in range(2):
        y = y + 1
    return y


SEEN = (
    lambda y: y[1:].reshape(-1), lambda y: y[:, :, 1:].ravel(), lambda y: y[0].ravel(), lambda y: y[0, 1].ravel(),
    lambda y: np.ascontiguousarray(y), lambda y: np.asfortranarray(y), lambda y: np.asarray(y, order="F"),
    lambda y: np.ascontiguousarray(y.T), lambda y: np.asfortranarray(y[:, :, 1:]), lambda y: y.T.reshape(-1),
)  # fmt: skip


@pytest.mark.parametrize("see", SEEN, ids=range(len(SEEN)))
def test_writes_to_what_may_be_a_view_of_a_part_show_as_in_numpy_or_are_refused(see):
    """Parts and transposes of what NumPy lays out otherwise lie otherwise, too, also where paths meet."""

    def writer(make):
        def write(a):
            y = make(a)
            z = see(y)
            z[-1] = 77
            return y, z

        return write

    for write in map(writer, (lambda a: a * 2, joined)):
        # in columns; with permuted axes
        for a in (np.asfortranarray(CUBE), CUBE.transpose(2, 0, 1)):
            try:
                found = dlvm.jit(write)(a)
            except dlvm.UnsupportedSyntax as error:
                assert "may be a copy where NumPy makes a view" in str(error)
            else:
                assert all(map(np.array_equal, found, write(a)))


def test_flags_of_results_are_those_of_numpy_or_not_known():
    def flags(a):
        y = a * 2
        return y.flags.c_contiguous, y.flags.f_contiguous

    for a in (CUBE, np.asfortranarray(CUBE)):
        assert dlvm.jit(flags)(a) == flags(a)
    with pytest.raises(dlvm.UnsupportedSyntax, match="is not known when it is compiled"):
        dlvm.jit(lambda a: (a * 2).T.flags.c_contiguous)(np.asfortranarray(CUBE))
    with pytest.raises(dlvm.UnsupportedSyntax, match="is not known"):
        dlvm.jit(lambda a: (a * 2)[1:].view(np.int32))(np.asfortranarray(CUBE))
