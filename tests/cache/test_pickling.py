"""Functions of ours go to other processes with an empty cache: by pickle, and by cloudpickle, as in joblib."""

from __future__ import annotations

import copy
import functools
import inspect
import multiprocessing
import pickle
import pydoc
import subprocess
import sys
import textwrap
import threading
import types
import typing
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import Any

import cloudpickle
import journeys
import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

from yota_py import config, explain, gradient, jit, value_and_grad

X, P = np.arange(3.0), np.ones(3)


def loss(p: Any, x: Any) -> Any:
    return np.sum((p * x) ** 2)


class Model:
    """A callable object, which owns its cache."""

    def __init__(self) -> None:
        self.x = X

    def __call__(self, p: Any) -> Any:
        return np.sum((p * self.x) ** 2)


FUNCTIONS: list[tuple[Callable[[], Callable[..., Any]], tuple[Any, ...]]] = [
    (lambda: value_and_grad(loss), (P, X)),
    (lambda: value_and_grad(loss, (0, -1)), (P, X)),
    (lambda: gradient(loss), (P, X)),
    (lambda: jit(loss), (P, X)),
    (lambda: value_and_grad(lambda p: np.sum(p * X * p)), (P,)),
    (lambda: gradient(gradient(lambda x: x**3)), (2.0,)),
    (lambda: jit(gradient(lambda x: np.sum(np.sin(x)))), (X,)),
    (lambda: value_and_grad(Model()), (P,)),
]


@pytest.mark.parametrize("policy", ["auto", "always"])
@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_they_are_the_same_after_a_journey(k: int, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", policy)
    make, args = FUNCTIONS[k]
    f = make()
    want = f(*args)
    for _ in range(2):
        f(*args)
    other = cloudpickle.loads(cloudpickle.dumps(f))
    for g in (other, cloudpickle.loads(cloudpickle.dumps(other)), copy.copy(f), copy.deepcopy(f)):
        for _ in range(3):
            np.testing.assert_equal(g(*args), want)
        g.compile(*args)
        np.testing.assert_equal(g(*args), want)
        assert explain(g)[0].entries
    assert not explain(cloudpickle.loads(cloudpickle.dumps(f)))
    np.testing.assert_equal(f(*args), want)


@pytest.fixture(scope="module", autouse=True)
def _without_pools() -> Iterator[None]:
    """Nor threads that wait for processes: with others beside it, an audit does not believe what it sees once."""
    yield
    get_reusable_executor().shutdown(wait=True)
    assert threading.active_count() == 1


def test_fits_in_processes() -> None:
    fast = value_and_grad(loss)
    wanted = [fast(P * i, X) for i in range(4)]
    for f in (fast, jit(loss), gradient(loss)):
        here = [f(P * i, X) for i in range(4)]
        np.testing.assert_equal(Parallel(n_jobs=2)(delayed(f)(P * i, X) for i in range(4)), here)
    np.testing.assert_equal([fast(P * i, X) for i in range(4)], wanted)


# ------------------------------------------------------------------------------------------------ with pickle alone


BY_VALUE: dict[str, tuple[Callable[[], Callable[..., Any]], tuple[Any, ...]]] = {
    "value_and_grad": (lambda: value_and_grad(journeys.loss), (P, X)),
    "argnums": (lambda: value_and_grad(journeys.loss, (0, -1)), (P, X)),
    "has_aux": (lambda: value_and_grad(journeys.with_aux, 1, has_aux=True), (P, X)),
    "gradient": (lambda: gradient(journeys.loss, 1), (P, X)),
    "jit": (lambda: jit(journeys.loss), (P, X)),
    "second order": (lambda: gradient(gradient(journeys.cube)), (2.0,)),
    "compiled gradient": (lambda: jit(gradient(journeys.cube)), (2.0,)),
    "method": (lambda: jit(journeys.Model().step), (P,)),
    "decorated method": (lambda: journeys.Model().decorated, (P,)),
    "gradient of a method": (lambda: value_and_grad(journeys.Model().__call__), (P,)),
    "object": (lambda: value_and_grad(journeys.Model()), (P,)),
    "partial": (lambda: value_and_grad(journeys.scaled), (P,)),
    "held by an object": (lambda: journeys.Trained().step, (P,)),
    "of the object that holds it": (lambda: journeys.Trained().itself, (P,)),
}
BY_NAME = ["step", "decorated", "twice", "factorial", "Model.decorated", "Model.alone", "Model.fast"]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", BY_VALUE)
def test_pickle_takes_what_is_made_of_a_modules_function(name: str, protocol: int) -> None:
    make, args = BY_VALUE[name]
    f = make()
    want = f(*args)
    for dumps in (pickle.dumps, pickle._dumps):  # type: ignore[attr-defined]  # in C and in Python
        other = pickle.loads(dumps(f, protocol))
        for g in (other, pickle.loads(dumps(other, protocol))):
            assert g is not f
            np.testing.assert_equal(g(*args), want)
            if not isinstance(f, types.MethodType):
                assert repr(g) == repr(f)
                g.compile(*args)
                np.testing.assert_equal(g(*args), want)


def test_the_cache_stays_here() -> None:
    f = value_and_grad(journeys.Model())
    f.compile(P)
    assert explain(f)[0].entries
    assert not explain(pickle.loads(pickle.dumps(f)))
    assert len(pickle.dumps(f)) < 1000


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", BY_NAME[:-1])
def test_decorated_functions_go_by_name(name: str, protocol: int) -> None:
    f = attrgetter(name)(journeys)
    for dumps in (pickle.dumps, pickle._dumps, cloudpickle.dumps):  # type: ignore[attr-defined]
        assert pickle.loads(dumps(f, protocol)) is f
    assert b"loss" not in pickle.dumps(f)


def test_attributes_go_along() -> None:
    f = value_and_grad(journeys.loss)
    f.count = [3]
    f.itself = f
    g = pickle.loads(pickle.dumps(f))
    assert g.count == [3]
    assert g.itself is g
    assert vars(g).keys() == vars(f).keys()


def test_what_the_function_has_itself_stays_with_it() -> None:
    f = value_and_grad(with_lock)
    assert f.lock is with_lock.lock  # type: ignore[attr-defined]
    g = pickle.loads(pickle.dumps(f))
    assert g.lock is with_lock.lock  # type: ignore[attr-defined]


def with_lock(p: Any) -> Any:
    return p * p


with_lock.lock = threading.Lock()  # type: ignore[attr-defined]


@pytest.mark.parametrize("transform", [value_and_grad, gradient, jit, lambda f: jit(gradient(f))])
def test_functions_without_a_name_are_named(transform: Any) -> None:
    for dumps in (pickle.dumps, pickle._dumps):  # type: ignore[attr-defined]
        with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
            dumps(transform(lambda x: x * x))

    @transform
    def inside(x: Any) -> Any:
        return x * x

    with pytest.raises((pickle.PicklingError, AttributeError), match="inside"):
        pickle.dumps(inside)


def test_a_name_that_is_bound_to_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    f = value_and_grad(journeys.loss)
    monkeypatch.setattr(journeys, "loss", journeys.cube)
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(f)


def test_objects_with_their_own_steps() -> None:
    trained = pickle.loads(pickle.dumps(journeys.Trained()))
    trained.w = P * 5.0
    np.testing.assert_equal(trained.step(X), 5.0 * X)
    np.testing.assert_equal(trained.itself(X), (15.0, trained.w))


# ------------------------------------------------------------------------------------------------- in other processes


def answers(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(*args)


def test_pools() -> None:
    functions = [(make(), args) for make, args in BY_VALUE.values()]
    functions += [(journeys.decorated, (P,)), (journeys.twice, (P,)), (journeys.Model().decorated, (P,))]
    want = [f(*args) for f, args in functions]
    fast = value_and_grad(journeys.loss)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_equal(pool.starmap(fast, [(P, X), (X, P)]), [fast(P, X), fast(X, P)])
        np.testing.assert_equal(pool.map(journeys.step, [P, X]), [P * 2.0, X * 2.0])
        np.testing.assert_equal(pool.starmap(answers, functions), want)


def test_executors() -> None:
    fast, slope = value_and_grad(journeys.loss), gradient(journeys.cube)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        np.testing.assert_equal(list(pool.map(fast, [P, X], [X, P])), [fast(P, X), fast(X, P)])
        assert pool.submit(slope, 2.0).result() == 12.0
        np.testing.assert_equal(pool.submit(journeys.step, X).result(), X * 2.0)


def test_functions_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    run = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["[20.0]", "[8.0]", "[12.0]"] * 4, run.stderr


SCRIPT = """
    import functools
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import numpy as np
    from joblib import Parallel, delayed

    from yota_py import gradient, jit, value_and_grad

    def loss(p):
        return np.sum(p * p) * 2.0

    @gradient
    def decorated(p):
        decorated.calls = 1  # knows itself
        return np.sum(p * p)

    class Model:
        rate = 3.0

        @jit
        def step(self, p):
            return p * self.rate

    both = value_and_grad(loss)
    FUNCTIONS = [(jit(loss), np.array([10.0])), (decorated, np.array([4.0])), (Model().step, np.array([4.0]))]

    if __name__ == "__main__":
        def show(results):
            print(*[[float(np.ravel(x)[0])] for x in results], sep="\\n")

        spawn = multiprocessing.get_context("spawn")
        FUNCTIONS[0] = (functools.partial(jit(loss)), np.array([10.0 ** 0.5]))
        with spawn.Pool(1) as pool:
            show([np.round(pool.map(f, [x])[0], 9) for f, x in FUNCTIONS])
        with ProcessPoolExecutor(1, spawn) as pool:
            show([np.round(pool.submit(f, x).result(), 9) for f, x in FUNCTIONS])
        for jobs in (1, 2):
            show([np.round(Parallel(n_jobs=jobs)([delayed(f)(x)])[0], 9) for f, x in FUNCTIONS])
"""


# --------------------------------------------------------------------------------------- what they are beside functions


def test_they_look_like_the_function() -> None:
    for f, name in ((value_and_grad(journeys.loss), "value_and_grad"), (gradient(journeys.loss), "gradient"),
                    (jit(journeys.loss), "jit")):
        assert (f.__name__, f.__qualname__, f.__module__, f.__doc__) == ("loss", "loss", "journeys", "A loss.")
        assert f.__wrapped__ is journeys.loss
        assert inspect.signature(f) == inspect.signature(journeys.loss)
        assert f.__annotations__ == journeys.loss.__annotations__
        assert repr(f) == f"<yota_py.{name} of loss>"
        assert "loss(p: 'Any', x: 'Any') -> 'Any'\n    A loss." in pydoc.plain(pydoc.render_doc(f))
        assert typing.get_type_hints(f) == typing.get_type_hints(journeys.loss)
        assert callable(f)
        assert isinstance(f, types.FunctionType)
        assert not inspect.iscoroutinefunction(f)
        assert inspect.isroutine(f)
        assert inspect.getsource(f) == inspect.getsource(journeys.loss)
        assert {f: 1}[f] == 1
        assert f == f
        assert f != value_and_grad(journeys.loss)
        assert weakref.ref(f)() is f
        assert copy.copy(f) is f
        assert copy.deepcopy([f])[0] is f
        with pytest.raises(AttributeError, match="nothing"):
            f.nothing  # noqa: B018
    assert " decorated(self, p: 'Any') -> 'Any'\n" in pydoc.plain(pydoc.render_doc(journeys.Model))
    assert "    step(x: 'Any') -> 'Any'\n        A step." in pydoc.plain(pydoc.render_doc(journeys))
    assert repr(jit(gradient(journeys.loss))) == "<yota_py.jit of yota_py.gradient of loss>"
    assert repr(jit(journeys.Model())) == "<yota_py.jit of Model>"
    assert repr(journeys.Model.decorated) == "<yota_py.jit of Model.decorated>"


def test_wrappers_of_them() -> None:
    fast = value_and_grad(journeys.loss)

    @functools.wraps(fast)
    def wrapper(*args: Any) -> Any:
        return fast(*args)

    assert (wrapper.__name__, wrapper.__doc__, inspect.unwrap(wrapper)) == ("loss", "A loss.", journeys.loss)
    np.testing.assert_equal(wrapper(P, X), fast(P, X))
    np.testing.assert_equal(jit(lambda p: wrapper(p, X)[0])(P), fast(P, X)[0])


def test_they_bind_as_functions_do() -> None:
    model = journeys.Model()
    np.testing.assert_equal(model.decorated(P), P + model.x)
    np.testing.assert_equal(journeys.Model.decorated(model, P), P + model.x)
    np.testing.assert_equal(model.alone(P), P * 3.0)
    assert model.decorated.__self__ is model
    assert model.decorated == model.decorated
    assert journeys.Model.fast is vars(journeys.Model)["fast"]
    model.own = gradient(journeys.cube)  # type: ignore[attr-defined]
    assert model.own(2.0) == 12.0  # type: ignore[attr-defined]


def test_partials_of_them() -> None:
    fast = functools.partial(value_and_grad(journeys.loss), x=X)
    np.testing.assert_equal(fast(P), value_and_grad(journeys.loss)(P, X))
    np.testing.assert_equal(pickle.loads(pickle.dumps(fast))(P), fast(P))
    np.testing.assert_equal(jit(lambda p: fast(p)[1])(P), fast(P)[1])
