"""A cached function driven through random sequences of calls and changes, against a fresh trace at each call.

``make stress`` runs 2,000 sequences; by default there are a few.
"""

from __future__ import annotations

import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from sets import examples

from yota_py import explain, grad, value_and_grad
from yota_py.cache import functions as cache
from yota_py.cache.check import differences
from yota_py.cache.modes import Gradient, Request

served = 0
SEQUENCES = examples(20)

SOURCE = '''
def f(x, y=1.0, k=2):
    u = np.sin(x) * lr + helper(x) * y
    if np.sum(u) > threshold:
        u = u * model.W
    elif flag:
        u = -u
    for _ in range(min(int(abs(np.sum(x))) % 4, k)):
        u = np.tanh(u) + offsets["b"]
    z = np.zeros_like(u)
    z[...] = u
    z[1:] += u[:-1] * cell(2.0)
    v = z[::-1]
    v[0] = 0.5
    picked = u[x > cut]
    w = np.exp(data) * model.scale
    i = int(np.argmax(x)) if steps[0] else 0
    return np.sum(z * z) + np.sum(picked) * model.layers[1] + np.sum(w) * steps[1] + x[i] * first


def outer(a, b):
    def cell(t):
        nonlocal_free = a
        return t * nonlocal_free + b
    return cell
'''
HELPERS = '''
def square(x): return x * x
def shifted(x): return x + shift
def branching(x): return x if x[0] > 0 else 2 * x
counted = lambda x, n=3: x * n
'''
CODE = compile(SOURCE, "<user>", "exec")
NUMBERS = st.sampled_from([0.0, -0.0, 0.1, 0.5, 1.0, 2.0, -1.5, 3, 0, True, np.float64(0.7), np.float32(0.3)])
FLOATS = st.floats(-2, 2, width=32)


class Model:
    """Parameters of a model."""

    def __init__(self, scale: float) -> None:
        self.W, self.scale, self.layers = np.array([1.5]), scale, [np.ones(2), 0.5]


def arrays(draw_values: list[float], form: str) -> np.ndarray:
    """An array of these values, as users hold them."""
    x = np.array(draw_values, np.float32 if form == "float32" else np.float64)
    if form == "reversed":
        x = x[::-1]
    elif form == "strided":
        x = np.repeat(x, 2)[::2]
    elif form == "big-endian":
        x = x.astype(">f8")
    elif form == "read-only":
        x.flags.writeable = False
    return x


def outcome(fn: Any, *args: Any) -> Any:
    """The result of a call, or the kind of error that NumPy raises in it."""
    try:
        return fn(*args)
    except (ValueError, IndexError, TypeError) as e:
        return type(e).__name__


INPUTS = st.builds(
    arrays,
    st.one_of(st.lists(FLOATS, min_size=3, max_size=3), st.lists(FLOATS, min_size=2, max_size=5)),
    st.sampled_from(["plain", "plain", "plain", "float32", "reversed", "strided", "big-endian", "read-only"]),
)


class Session(RuleBasedStateMachine):
    """What a user may do to a function and its surroundings between two calls."""

    @initialize(scale=FLOATS)
    def start(self, scale: float) -> None:
        """A module with the function and all that it reads; nothing is known of it."""
        cache.clear_caches()
        names: dict[str, Any] = {"np": np, "__name__": "user_module", "shift": 0.25}
        exec(CODE, names)
        exec(HELPERS, names)
        names.update(
            lr=0.5, threshold=0.0, flag=True, cut=0.0, first=1.0, helper=names["square"], model=Model(scale),
            offsets={"a": 1.0, "b": 0.1}, data=np.array([0.1, 0.2]), steps=[1, 0.5],
        )  # fmt: skip
        names["cell"] = names["outer"](0.5, np.array(0.25))
        self.names, self.f = names, names["f"]

    def teardown(self) -> None:
        """Count how often programs have served."""
        global served
        served += sum(told.calls for told in explain(self.f))

    def agree(self, *args: Any) -> None:
        """A cached call gives what a fresh trace gives."""
        call, first = Request(self.f, args, {}), value_and_grad(self.f)
        for _ in range(2):
            assert not differences(outcome(grad, self.f, *args), outcome(Gradient().interpret, call))
            assert not differences(outcome(first, *args), outcome(Gradient(0).interpret, call))

    # -- calls

    @rule(x=INPUTS)
    def call(self, x: np.ndarray) -> None:
        """Three calls, in which the path may change."""
        for factor in (1, -1, 2):
            self.agree(x * x.dtype.type(factor))

    @rule(x=INPUTS, y=NUMBERS, k=st.integers(0, 3))
    def call_with_more(self, x: np.ndarray, y: Any, k: int) -> None:
        """Other signatures."""
        self.agree(x, y)
        self.agree(x, y, k)

    @rule(x=INPUTS)
    def call_twice_with_one_array(self, x: np.ndarray) -> None:
        """The same array for two arguments."""
        self.agree(x, x)

    @rule(xs=st.lists(INPUTS, min_size=2, max_size=4))
    def call_from_threads(self, xs: list[np.ndarray]) -> None:
        """Several calls at a time."""
        want = [outcome(Gradient().interpret, Request(self.f, (x,), {})) for x in xs]
        with ThreadPoolExecutor(len(xs)) as pool:
            for have, fresh in zip(pool.map(lambda x: outcome(grad, self.f, x), xs), want, strict=True):
                assert not differences(have, fresh)

    @rule(x=INPUTS)
    def compile(self, x: np.ndarray) -> None:
        """Asked for by the user."""
        outcome(grad.compile, self.f, x)
        self.agree(x)

    # -- changes

    @rule(name=st.sampled_from(["lr", "threshold", "cut", "first", "shift"]), value=NUMBERS)
    def rebind_number(self, name: str, value: Any) -> None:
        """A global number, perhaps of another type."""
        self.names[name] = value

    @rule(flag=st.booleans())
    def flip(self, flag: bool) -> None:
        """A global flag."""
        self.names["flag"] = flag

    @rule(name=st.sampled_from(["square", "shifted", "branching", "counted"]))
    def rebind_helper(self, name: str) -> None:
        """Another helper function."""
        self.names["helper"] = self.names[name]

    @rule(n=st.integers(1, 4))
    def edit_helper(self, n: int) -> None:
        """The helper's default is another one."""
        self.names["counted"].__defaults__ = (n,)

    @rule(a=NUMBERS, b=NUMBERS)
    def rebind_closure(self, a: Any, b: Any) -> None:
        """Another closure of the same code."""
        self.names["cell"] = self.names["outer"](a, np.array(float(b)))

    @rule(a=FLOATS)
    def rebind_cell(self, a: float) -> None:
        """The same closure, another value in its cell."""
        self.names["cell"].__closure__[0].cell_contents = a

    @rule(scale=NUMBERS)
    def replace_model(self, scale: Any) -> None:
        """Another object of the same class."""
        self.names["model"] = Model(scale)

    @rule(scale=NUMBERS)
    def set_attribute(self, scale: Any) -> None:
        """An attribute of the object."""
        self.names["model"].scale = scale

    @rule(value=FLOATS)
    def write_weights(self, value: float) -> None:
        """An array changes in place."""
        self.names["model"].W[...] = value

    @rule(shape=st.sampled_from([(), (1,), (1, 1)]), dtype=st.sampled_from([np.float64, np.float32]))
    def replace_weights(self, shape: tuple[int, ...], dtype: Any) -> None:
        """An array of another shape or dtype."""
        self.names["model"].W = np.full(shape, 0.75, dtype)

    @rule(value=NUMBERS, index=st.integers(0, 1))
    def change_list(self, value: Any, index: int) -> None:
        """An item of a list."""
        self.names["steps"][index] = value

    @rule(value=NUMBERS, key=st.sampled_from(["a", "b", "c"]))
    def change_dict(self, value: Any, key: str) -> None:
        """An item of a dict, perhaps a key that was not there."""
        self.names["offsets"][key] = value

    @rule(value=FLOATS)
    def refill_data(self, value: float) -> None:
        """What is computed from it alone has to follow."""
        self.names["data"][:] = value

    @rule(n=st.integers(1, 3))
    def replace_data(self, n: int) -> None:
        """Data of another length."""
        self.names["data"] = np.linspace(0, 1, n)

    @rule()
    def same_code_in_another_module(self) -> None:
        """A copy of the function with globals of its own."""
        names = {**self.names, "lr": 0.9, "data": self.names["data"].copy()}
        self.names, self.f = names, types.FunctionType(self.f.__code__, names, "f", self.f.__defaults__)


PARTS = 4 if SEQUENCES > 100 else 1  # for workers that run side by side
for _part in range(PARTS):
    _test = type(f"Session{_part}", (Session,), {}).TestCase  # type: ignore[attr-defined]
    _test.settings = settings(
        max_examples=SEQUENCES // PARTS,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=SEQUENCES == 20,
    )
    globals()[f"TestSession{_part}"] = _test
    del _test


def teardown_module() -> None:
    """The sequences have met compiled programs."""
    assert served > SEQUENCES // PARTS
