"""Jacobians, Hessians and products with vectors are those of finite differences, whatever the structures."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.optimize import rosen, rosen_hess, rosen_hess_prod

from yota_py import (
    NonScalarOutputError,
    NotDifferentiableError,
    SeedError,
    config,
    explain,
    gradient,
    hessian,
    hvp,
    jacobian,
    jit,
    primitive,
    pullback,
    pushforward,
    rrule,
    value_and_grad,
    vmap,
)

RNG = np.random.default_rng(0)
A, V = RNG.normal(size=(4, 3)), np.array([0.3, -1.2, 0.7])
MODES = ["never", "auto", "always"]


@primitive
def cube(x: Any) -> Any:
    return x * x * x


@rrule(cube)
def _(x: Any) -> Any:
    return cube(x), lambda dy: (dy * 3 * x * x,)


class Pair(NamedTuple):
    """A container of the user's."""

    a: Any
    b: Any


def numerical(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """The Jacobian of an array in an array by central differences."""
    h, columns = 1e-6, []
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = h
        step = step.reshape(x.shape)
        columns.append((np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * h))
    shape = np.shape(f(x))
    return np.reshape(np.stack(columns, axis=-1) if columns else np.zeros((*shape, 0)), (*shape, *x.shape))


def filled(x: Any) -> Any:
    out = np.zeros(5)
    out[1:4] = x * x
    out[2] += x[0]
    return out


def branched(x: Any) -> Any:
    return np.stack([x[i] ** 2 if x[i] > 0 else np.sin(x[i]) for i in range(3)])


def turned(x: Any) -> Any:
    for _ in range(20):
        x = x + 0.1 * np.sin(x) * x[::-1]
    return x


OF_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "wide": lambda x: np.tanh(A[:2] @ x),
    "tall": lambda x: np.tanh(A @ x),
    "square": lambda x: x * np.sum(x) + np.sin(x),
    "matrix": lambda x: np.outer(x, x[:2]) * np.exp(x[0]),
    "number": lambda x: np.sum(x**3) * x[0],
    "constant in one place": lambda x: np.array([x[0], 1.0, 2.0]),
    "ties": lambda x: np.maximum(x, 2 * x) + np.abs(x),
    "written": filled,
    "branched": branched,
    "turned": turned,
    "sorted": np.sort,
    "cumulated": np.cumsum,
    "of nothing": lambda x: x[:0] * 2.0,
    "one of an axis": lambda x: np.sum(x, keepdims=True),
    "inverse": lambda x: np.linalg.inv(np.eye(3) + 0.1 * np.outer(x, x)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OF_ARRAYS)
def test_of_arrays(name: str, mode: str) -> None:
    config.compile = mode
    f = OF_ARRAYS[name]
    for x in (V, 2 * V, V[::-1].copy()):
        want = numerical(f, x)
        given = x.copy()
        np.testing.assert_allclose(jacobian(f)(given), want, rtol=1e-6, atol=1e-7)
        assert np.array_equal(x, given)
        v = np.array([1.0, -2.0, 0.5])
        y, forward = pushforward(f, x)
        np.testing.assert_allclose(y, f(x))
        for _ in range(2):
            np.testing.assert_allclose(forward(v), want @ v, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(forward(None), np.zeros(np.shape(y)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["number", "of one axis", "quotient", "loop", "written"])
def test_second_derivatives(name: str, mode: str) -> None:
    config.compile = mode
    f = {
        "number": OF_ARRAYS["number"],
        "of one axis": lambda x: np.sum(np.exp(np.outer(x, x))),
        "quotient": lambda x: x[0] / (1.0 + x[1] ** 2) + x[2],
        "loop": lambda x: np.sum(turned(x) ** 2),
        "written": lambda x: np.sum(filled(x) ** 2),
    }[name]
    for x in (V, V + 0.5, -V):
        want = numerical(gradient(f), x)
        np.testing.assert_allclose(hessian(f)(x), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(hvp(f)(x, V), want @ V, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jacobian(gradient(f))(x), hessian(f)(x), rtol=1e-12, atol=1e-12)


def test_rosenbrock() -> None:
    for n in (2, 5, 30):
        x, v = RNG.normal(size=n), RNG.normal(size=n)
        np.testing.assert_allclose(hessian(rosen)(x), rosen_hess(x), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(hvp(rosen)(x, v), rosen_hess_prod(x, v), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_structures(mode: str) -> None:
    config.compile = mode

    def f(p: Any, scale: Any, n: int = 2) -> Any:
        return {"s": scale * p.a**n, "n": n, "t": (p.b + 1.0, None, "text")}

    for _ in range(3):
        found = jacobian(f, argnums=(0, 1))(Pair(np.array([1.0, 2.0]), 3.0), 0.5, n=3)
        assert found["n"] is None and found["t"][1:] == (None, None)
        (ds, dscale), (dt, dtscale) = found["s"], found["t"][0]
        assert type(ds) is Pair and type(dt) is Pair
        np.testing.assert_allclose(ds.a, np.diag([1.5, 6.0]))
        np.testing.assert_allclose(ds.b, np.zeros(2))
        np.testing.assert_allclose(dscale, [1.0, 8.0])
        assert dt.b == 1.0 and dtscale == 0.0
        np.testing.assert_allclose(dt.a, np.zeros(2))
    assert jacobian(lambda z: (z[0] + 1, z[0] * z[1]))((2.0, 3.0)) == ((1.0, 0.0), (3.0, 2.0))
    assert jacobian(lambda x, y: x * y, -1)(2.0, 3.0) == 2.0
    found = jacobian(lambda p: p["w"] * p["k"])({"w": np.ones(2), "k": 3})
    np.testing.assert_allclose(found["w"], 3 * np.eye(2))
    assert found["k"] is None


@pytest.mark.parametrize("mode", MODES)
def test_second_derivatives_of_structures(mode: str) -> None:
    config.compile = mode

    def f(a: Any, p: Any) -> Any:
        return a**2 * np.sum(p["b"] ** 3) + p["c"] * a

    a, p = 2.0, {"b": np.array([1.0, 2.0]), "c": 0.5}
    for _ in range(3):
        (aa, ap), of_p = hessian(f, (0, 1))(a, p)
        (ba, bp), (ca, cp) = of_p["b"], of_p["c"]
        assert aa == 18.0 and ap["c"] == ca == 1.0 and cp["c"] == 0.0
        np.testing.assert_allclose(ap["b"], [12.0, 48.0])
        np.testing.assert_allclose(ba, ap["b"])
        np.testing.assert_allclose(bp["b"], np.diag([24.0, 48.0]))
        np.testing.assert_allclose(bp["c"], np.zeros(2))
        np.testing.assert_allclose(cp["b"], np.zeros(2))
        along = hvp(f, 1)(a, p, {"b": [1, 0], "c": None})
        np.testing.assert_allclose(along["b"], [24.0, 0.0])
        assert along["c"] == 0.0
        da, dp = hvp(f, (0, 1))(a, p, (1.0, None))
        assert da == 18.0 and dp["c"] == 1.0
        np.testing.assert_allclose(dp["b"], [12.0, 48.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(dtype: Any) -> None:
    x = np.array([0.5, 1.5], dtype)
    for f in (lambda x: x * x, lambda x: np.concatenate([x, x * x])):
        assert jacobian(f)(x).dtype == dtype
        y, forward = pushforward(f, x)
        assert y.dtype == forward([1, 2]).dtype == dtype
    assert hessian(lambda x: np.sum(x**3))(x).dtype == hvp(lambda x: np.sum(x**3))(x, [1, 2]).dtype == dtype
    y, forward = pushforward(lambda x, n, s: (x**n, n, s), dtype(2.0), 3, "text")
    dy = forward(1.0, None, None)
    assert type(dy[0]) is dtype and dy == (12.0, None, None) and y == (8.0, 3, "text")


def test_numbers_of_python_stay_such() -> None:
    assert type(jacobian(lambda x: x * x)(3.0)) is float
    assert type(hvp(lambda x: x**3)(2.0, 1.0)) is float
    assert hessian(lambda x: x**3)(2.0) == hvp(lambda x: x**3)(2.0, 1) == 12.0


def test_complex_numbers_have_tangents() -> None:
    z, t = np.array([1 + 2j, -0.5j]), np.array([1j, 2.0 - 1j])
    for f, df in ((lambda z: z * z, lambda z, t: 2 * z * t), (np.conj, lambda z, t: np.conj(t)),
                  (lambda z: np.abs(z) ** 2, lambda z, t: 2 * np.real(np.conj(z) * t))):  # fmt: skip
        np.testing.assert_allclose(pushforward(f, z)[1](t), df(z, t))


def test_derivatives_of_derivatives() -> None:
    f = OF_ARRAYS["square"]
    third = jacobian(jacobian(f))
    for x in (V, 1.5 * V):
        np.testing.assert_allclose(third(x), numerical(jacobian(f), x), rtol=1e-5, atol=1e-6)
        of_norm = gradient(lambda x: np.sum(jacobian(f)(x) ** 2))
        np.testing.assert_allclose(of_norm(x), numerical(lambda x: np.sum(jacobian(f)(x) ** 2), x), rtol=1e-5)
        twice = gradient(lambda x: np.sum(pushforward(f, x)[1](x) ** 2))
        np.testing.assert_allclose(twice(x), numerical(lambda x: np.sum((jacobian(f)(x) @ x) ** 2), x), rtol=1e-5)
    inner = pushforward(lambda x: pushforward(f, x)[1](V), V)[1](V)
    np.testing.assert_allclose(inner, third(V) @ V @ V)


def test_in_programs() -> None:
    f = OF_ARRAYS["tall"]
    step = jit(lambda x, v: pushforward(f, x)[1](v))
    for x in (V, -V, 2 * V):
        np.testing.assert_allclose(step(x, V), jacobian(f)(x) @ V, rtol=1e-12)
    assert explain(step)[0].calls == 2
    batch = np.stack([V, 2 * V, -V])
    for _ in range(2):
        np.testing.assert_allclose(vmap(jacobian(f))(batch), np.stack([jacobian(f)(x) for x in batch]), rtol=1e-12)
        np.testing.assert_allclose(vmap(pushforward(f, V)[1])(batch), batch @ jacobian(f)(V).T, rtol=1e-12)


def test_is_the_transpose_of_a_pullback() -> None:
    for f in OF_ARRAYS.values():
        y, forward = pushforward(f, V)
        u, v = RNG.normal(size=np.shape(y)), RNG.normal(size=3)
        np.testing.assert_allclose(np.sum(u * forward(v)), np.sum(pullback(f, V)[1](u)[0] * v), rtol=1e-10, atol=1e-12)


def test_functions_one_after_the_other() -> None:
    """Of one code, with what they capture."""

    def scaled(c: Any) -> Any:
        return lambda x: c * x**2

    transforms = [jacobian(scaled(c)) for c in (1.0, np.array([2.0, 3.0, 4.0]), 5.0)]
    for _ in range(3):
        for c, j in zip((1.0, np.array([2.0, 3.0, 4.0]), 5.0), transforms, strict=True):
            np.testing.assert_allclose(j(V), np.diag(2 * c * V))
    scale = np.ones(3)
    j = jacobian(lambda x: scale * x)
    for k in range(4):
        scale[:] = k
        np.testing.assert_allclose(j(V), k * np.eye(3))


def test_methods_and_keywords() -> None:
    class Model:
        """With a parameter."""

        def __init__(self) -> None:
            self.w = A

        def __call__(self, x: Any, power: int = 1) -> Any:
            return (self.w @ x) ** power

        def energy(self, x: Any) -> Any:
            return np.sum((self.w @ x) ** 2)

    model = Model()
    for _ in range(3):
        np.testing.assert_allclose(jacobian(model)(V), A)
        np.testing.assert_allclose(jacobian(model)(V, power=2), 2 * (A @ V)[:, None] * A)
        np.testing.assert_allclose(hessian(model.energy)(V), 2 * A.T @ A)
        np.testing.assert_allclose(hvp(model.energy)(V, V), 2 * A.T @ A @ V)


def test_results_share_no_memory() -> None:
    x = V.copy()
    y, forward = pushforward(lambda x: x, x)
    v = np.ones(3)
    dy = forward(v)
    assert not any(np.may_share_memory(a, b) for a, b in ((x, y), (v, dy)))
    x[:] = 0.0
    np.testing.assert_allclose(forward(v), np.ones(3))
    numbers = [1.0, 2.0]
    _, forward = pushforward(lambda xs: xs[0] * xs[1], numbers)
    numbers.append(3.0)
    assert forward([1.0, 0.0]) == 2.0
    rows = jacobian(lambda x: (x, x))(V)
    assert not np.may_share_memory(*rows)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transform", [jacobian, hessian, hvp], ids=lambda transform: transform.__name__)
def test_other_arguments_stay(transform: Any, mode: str) -> None:
    """As with gradients: whatever the function does to them."""
    config.compile = mode

    def f(x: Any, b: Any, log: Any, *, c: Any) -> Any:
        b += 1.0
        c[0] = 5.0
        log.append(1.0)
        return np.sum(x**2) * b[0] * c[0]

    for _ in range(3):
        b, log, c = np.ones(2), [0.5], np.ones(2)
        found = transform(f)(V, b, log, *([V] if transform is hvp else []), c=c)
        want = {jacobian: 20 * V, hessian: 20 * np.eye(3), hvp: 20 * V}[transform]
        np.testing.assert_allclose(found, want)
        assert b.tolist() == c.tolist() == [1.0, 1.0] and log == [0.5]


@pytest.mark.parametrize("mode", MODES)
def test_numbers_are_of_the_arguments_kinds(mode: str) -> None:
    config.compile = mode
    for _ in range(3):
        for f in (lambda x: (x,), lambda x: (x, x * x, 2.0 * x)):
            assert [type(d) for d in jacobian(f)(3.0)] == [float] * len(f(1.0))
            assert [type(d) for d in jacobian(f)(np.float64(3.0))] == [np.float64] * len(f(1.0))
            for d in jacobian(f)(np.array(3.0)):
                assert type(d) is np.ndarray and d.shape == ()
        (da, db), *_ = jacobian(lambda a, b: [a * b, a, b], (0, 1))(2.0, 3.0)
        assert type(da) is type(db) is float and (da, db) == (3.0, 2.0)
        assert type(hessian(lambda x: x**3)(np.array(2.0))) is np.ndarray


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("error")
def test_none_and_lists(mode: str) -> None:
    config.compile = mode
    for k in range(4):
        found = jacobian(lambda x: np.array([np.sum(x), 1.0]))(np.zeros(0))
        assert found.shape == (2, 0)
        np.testing.assert_allclose(hvp(rosen)(V, [1.0, 0.0, float(k)]), rosen_hess_prod(V, np.array([1.0, 0.0, k])))


@pytest.mark.filterwarnings("error")
def test_rules_of_users_are_compiled() -> None:
    transforms = hessian(lambda x: np.sum(cube(x))), hvp(lambda x: np.sum(cube(x))), jacobian(lambda x: cube(x) * x[0])
    nested = value_and_grad(lambda x: np.sum(gradient(lambda x: np.sum(cube(x)))(x) ** 2))
    for x in (V, 2 * V, -V, V + 1):
        np.testing.assert_allclose(transforms[0](x), np.diag(6 * x))
        np.testing.assert_allclose(transforms[1](x, V), 6 * x * V)
        np.testing.assert_allclose(transforms[2](x), numerical(lambda x: x**3 * x[0], x), rtol=1e-6)
        np.testing.assert_allclose(nested(x)[1], 36 * x**3)
        np.testing.assert_allclose(pushforward(cube, x)[1](V), 3 * x**2 * V)
    assert all(explain(made)[0].calls == 3 for made in (*transforms, nested))


def test_compile_at_once() -> None:
    j, h, p = jacobian(OF_ARRAYS["square"]), hessian(rosen), hvp(rosen)
    j.compile(V)
    h.compile(V)
    p.compile(V, V)
    assert [explain(x)[0].calls for x in (j, h, p)] == [0, 0, 0]
    np.testing.assert_allclose(j(V), numerical(OF_ARRAYS["square"], V), rtol=1e-6)
    np.testing.assert_allclose(h(V), rosen_hess(V))
    np.testing.assert_allclose(p(V, V), rosen_hess_prod(V, V))
    assert [explain(x)[0].calls for x in (j, h, p)] == [1, 1, 1]
    assert repr(j).startswith("<yota_py.jacobian of ") and repr(h) == "<yota_py.hessian of rosen>"
    assert pickle.loads(pickle.dumps(hessian(rosen)))(V).shape == (3, 3)


def test_wrong_uses() -> None:
    f = OF_ARRAYS["tall"]
    _, forward = pushforward(f, V)
    with pytest.raises(TypeError, match="a tangent for each of the 1 arguments of"):
        forward()
    with pytest.raises(SeedError, match=r"the tangent of argument 0 of .* has float64\[2\], the argument is float64"):
        forward(np.ones(2))
    with pytest.raises(SeedError, match="is complex, the argument is real"):
        forward(1j * V)
    with pytest.raises(SeedError, match="has the structure"):
        pushforward(lambda p: p["a"], {"a": 1.0})[1]([1.0])
    with pytest.raises(SeedError, match="is given for int64, which has no derivative; give None"):
        pushforward(lambda x, n: x * n, 1.0, 2)[1](1.0, 1.0)
    model = SimpleNamespace(w=V)
    with pytest.raises(SeedError, match="is an object: its arrays have to be arguments"):
        pushforward(lambda m, x: m.w @ x, model, V)[1](model, V)
    with pytest.raises(TypeError, match="the arguments of the function, and then the vector; got 1"):
        hvp(rosen)(V)
    with pytest.raises(SeedError, match=r"the vector for hvp of rosen has float64\[2\]"):
        hvp(rosen)(V, V[:2])
    with pytest.raises(SeedError, match="is a tuple of 2, one for each of argnums"):
        hvp(lambda a, b: a * b, (0, 1))(1.0, 2.0, 1.0)
    with pytest.raises(TypeError, match=r"argnums=1, but .* got 1 positional argument"):
        jacobian(f, 1)(V)
    with pytest.raises(ValueError, match="argnums are positions"):
        jacobian(f, "x")  # type: ignore[arg-type]
    with pytest.raises(NotDifferentiableError, match=r"<lambda> is given complex numbers.* real and imaginary parts"):
        jacobian(lambda z: z * z)(1 + 2j)
    with pytest.raises(NotDifferentiableError, match="<lambda> is given complex numbers"):
        hessian(lambda z: np.sum(np.abs(z)))(1j * V)
    with pytest.raises(NotDifferentiableError, match="<lambda> returns complex numbers"):
        jacobian(lambda x: 1j * x)(V)
    with pytest.raises(NotDifferentiableError, match="is differentiable"):
        jacobian(f)(np.array([1, 2, 3]))
    with pytest.raises(NonScalarOutputError):
        hessian(f)(V)
    for transform in (jacobian, hessian, hvp):
        with pytest.raises(TypeError, match="wants a function; got ndarray"):
            transform(V)  # type: ignore[arg-type]


def test_what_users_hand_to_scipy() -> None:
    times = np.linspace(0, 4, 25)
    seen = 3.0 * np.exp(-0.7 * times) + 0.5

    def residuals(p: Any) -> Any:
        return p[0] * np.exp(-p[1] * times) + p[2] - seen

    fit = optimize.least_squares(residuals, np.array([1.0, 1.0, 0.0]), jac=jacobian(residuals))
    np.testing.assert_allclose(fit.x, [3.0, 0.7, 0.5], rtol=1e-6)
    start, both = np.zeros(4), value_and_grad(rosen)
    least = optimize.minimize(both, start, jac=True, hess=hessian(rosen), method="trust-exact", tol=1e-9)
    np.testing.assert_allclose(least.x, np.ones(4), rtol=1e-5)
    least = optimize.minimize(both, start, jac=True, hessp=hvp(rosen), method="Newton-CG", tol=1e-9)
    np.testing.assert_allclose(least.x, np.ones(4), rtol=1e-5)

    def robertson(t: Any, y: Any) -> Any:
        a, b = 0.04 * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return np.array([-a, a - b, b])

    slopes = jacobian(robertson, argnums=1)
    solved = integrate.solve_ivp(robertson, (0, 100), [1.0, 0.0, 0.0], method="BDF", jac=slopes, rtol=1e-6, atol=1e-10)
    assert solved.success and abs(np.sum(solved.y[:, -1]) - 1) < 1e-8
