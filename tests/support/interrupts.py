"""What tests of interrupts share: programs with state, exceptions between two bytecodes, and what is to be seen after
them."""

from __future__ import annotations

import builtins
import gc
import math
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import lru_cache
from typing import Any

import numpy as np
from performing import assert_same
from roads import left_behind

from yota_py import config, grad, jit, value_and_grad
from yota_py.base import locks
from yota_py.base.settings import reference
from yota_py.base.unwinding import state
from yota_py.cache.functions import clear_caches
from yota_py.registry.patches import patched

CALLS, MORE = 5, 3  # of which one is interrupted, and after it
NOT_OURS = ("llvmlite", "numba", "importlib", "_pytest", "pytest")
# Those that change something for a while, or keep something for later calls.
CHANGING = {f"yota_py.{name}" for name in (
    "attributes", "audit", "cache", "captures", "classes", "collection", "effects", "exchange", "items", "jit",
    "leftovers", "locks", "memos", "patching", "recording", "settings", "shelf", "step", "unwinding", "variants",
    "watch",
)}  # fmt: skip


class LateError(Exception):
    """What a time limit may raise; libraries may catch it."""


STEP = '''
count, velocity, total = 0, np.zeros(3), 0.0
scale = np.array([1.0, 2.0, 3.0])
history, table = [0.0, np.zeros(3)], {"loss": 0.0, "w": None}
log, recent = [0.5], deque([1.0], maxlen=2)

class Base:
    made = 0

class Layer(Base):
    calls, norm = 0, np.zeros(3)
    __slots__ = ("w", "_rate", "n")

    def __init__(self):
        self.w, self._rate, self.n, self.bias = np.ones(3), 0.1, 0, [np.zeros(3), 0]

    @property
    def rate(self):
        return self._rate

    @rate.setter
    def rate(self, value):
        self._rate = value
        self.n += 1

    def forward(self, x):
        Layer.calls += 1
        type(self).norm = self.norm + x
        self.bias[0] = self.bias[0] + x * 0.5
        self.bias[1] += 1
        return self.w * sin(x[0]) + self.bias[0]

layer = Layer()

def counted(x):
    counted.n += 1
    counted.last = x * 2.0
    return x * counted.n

counted.n, counted.last = 0, None

def make():
    seen = np.zeros(3)
    def bump(x):
        nonlocal seen
        seen = seen + x
        return seen * float(count)
    return bump

bump = make()

def step(x):
    global count, velocity, total
    count += 1
    y = layer.forward(x)
    loss, dw = value_and_grad(lambda w: np.sum((w * scale - y) ** 2))(layer.w)
    velocity = 0.5 * velocity - layer.rate * dw
    layer.w += 0.01 * velocity
    layer.rate = layer.rate * 0.9
    history[0], history[1] = loss, y * 2.0
    table["loss"] = table["loss"] + loss
    table["w"] = [x * 2.0, {"y": y}]
    x[0] = counted(x)[1] * 0.001
    total = total + math.exp(-x[1])
    log.append(loss)
    recent.append(x[1])
    z = np.zeros(3)
    z[1:] = x[:-1]
    return loss + np.sum(bump(x) + z), np.array([x[1], total])
'''
STEP_PLACES = (
    "count", "velocity", "total", "log", "recent", "history[0]", "history[1]", "table['loss']", "table['w']",
    "Layer.calls", "Layer.norm", "layer.w", "layer._rate", "layer.n", "layer.bias[0]", "layer.bias[1]", "counted.n",
    "counted.last", "bump.__closure__[0].cell_contents",
)  # fmt: skip

LOSS = '''
scale, shift, rate = np.array([1.0, 2.0, 3.0]), [np.ones(3), 2.0], 0.5
cache = {}

class Model:
    weights = {"a": np.array([0.5, 1.5, 2.5])}

model = Model()

@lru_cache(maxsize=None)
def power(n):
    return np.full(3, 2.0 ** n)

def penalty(w, by=scale):
    return rate * np.sum(w * w * by)

def step(x):
    if "w" not in cache:
        cache["w"] = np.arange(3.0)
    y = np.sum(np.sin(x * scale) * model.weights["a"] * shift[0]) + shift[1]
    if y < 0:
        y = -y
    for k in range(2):
        y = y + math.sin(y) * float(k) + penalty(x) + np.sum(power(3) * x * cache["w"])
    z = np.zeros(3)
    z[1:] = x[:-1] ** 2
    return y + np.sum(z) + np.max(np.array([x[0], x[1] * 2.0])) + grad(lambda t: t * t * y, 2.0)[0]
'''
LOSS_PLACES = ("cache",)

STORING = '''
last, log, scale, listed = None, {"x": None}, np.array([1.0, 2.0, 3.0]), [None, 0]

class Model:
    extra, w = None, np.ones(3)

model = Model()

def kept(x, known=[]):
    kept.y = x * 3.0
    known[:] = [x]
    return x * float(2)

def make():
    seen = None
    def see(x):
        nonlocal seen
        seen = x + 1.0
        return seen
    return see

see = make()

def step(x):
    global last
    last = x * 2.0
    model.extra = [x, (x * 1.0, {"y": last})]
    Model.w = x * 4.0
    log["x"] = x
    listed[:] = [x, x * 2.0]
    return np.sum(np.sin(x * scale)) + np.sum(kept(x) * see(x)) + np.sum(np.array([x[0], x[1]]))

kept.y = None
'''
STORING_PLACES = (
    "last", "log['x']", "listed", "model.extra", "Model.w", "kept.y", "kept.__defaults__[0][:]",
    "see.__closure__[0].cell_contents",
)  # fmt: skip

NESTED = '''
scale, n, w = np.array([1.0, 2.0, 3.0]), 0, np.ones(3)
class Model:
    def __init__(self):
        self.w, self.seen = np.ones(3), None
model = Model()

def inner(w, x):
    model.seen = w * 1.0
    return np.sum(np.tanh(w * scale) * x * model.w)

def step(x):
    global n, w
    n = n + 1
    dw = grad(lambda w: np.sum(grad(inner, w, x)[1][0] * w), w)[1][0]
    w = w - 0.1 * dw
    w /= math.sqrt(np.sum(w * w)) + 1.0
    model.w[:2] = w[1:] * n
    return np.sum(w) * sin(n)
'''
NESTED_PLACES = ("n", "w", "model.w", "model.seen")


class World:
    """A user's module with a function ``step``, and the places where it keeps its state."""

    def __init__(self, source: str, places: tuple[str, ...], wrap: Callable[[Any], Any]) -> None:
        self.names: dict[str, Any] = {
            "np": np, "math": math, "sin": math.sin, "grad": grad, "value_and_grad": value_and_grad,
            "lru_cache": lru_cache, "deque": deque, "__name__": "users_own",
        }  # fmt: skip
        exec(compile(source, "<users_own>", "exec"), self.names)
        self.places = places
        self.call = wrap(self.names["step"])

    def read(self) -> list[Any]:
        """The state, as copies."""
        return [_copied(eval(place, self.names)) for place in self.places]

    def write(self, values: list[Any]) -> None:
        """Let it be in this state."""
        for place, value in zip(self.places, values, strict=True):
            self.names["value"] = _copied(value)
            exec(f"{place} = value", self.names)
            del self.names["value"]

    def fixed(self) -> dict[str, Any]:
        """What no call changes: names, and what they stand for, unless it is state."""
        held = {name: dict(vars(value)) for name, value in self.names.items() if isinstance(value, type)}
        held[""] = {name: value for name, value in self.names.items() if name != "__builtins__"}
        held |= {name: dict(vars(self.names[name])) for name in ("model", "layer", "counted") if name in self.names}
        kept = {name.partition("[")[0].rpartition(".")[2] for name in self.places}
        return {f"{of}.{name}": id(value) for of in held for name, value in held[of].items() if name not in kept}


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray | deque):
        return value.copy()
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, dict) else value


class Interrupter:
    """Raises an exception before the n-th bytecode, or of those that change something; ``seen`` counts."""

    def __init__(self, at: int = 0, error: type[BaseException] = KeyboardInterrupt, *, changing: bool = False) -> None:
        self.at, self.error, self.changing, self.seen, self.where = at, error, changing, 0, ""

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if event == "call":
            name = str(frame.f_globals.get("__name__"))
            if (name not in CHANGING) if self.changing else (name.partition(".")[0] in NOT_OURS):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            self.seen += 1
            if self.seen == self.at:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name} {frame.f_lasti}"
                raise self.error
        return self

    def __enter__(self) -> None:
        sys.settrace(self)

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)


def x_of(i: int) -> Any:
    return np.array([0.3, 0.5, 0.7]) + 0.1 * i


def _fits(have: Any, possible: list[Any]) -> bool:
    for want in possible:
        with suppress(AssertionError):
            assert_same(have, want)
            return True
    return False


def _outside() -> dict[str, Any]:
    """What does not belong to the function: modules, hooks, switches, locks."""
    return {
        "names": {f"{owner.__name__}.{name}": id(vars(owner)[name]) for owner, name in patched},
        "modules": {m.__name__: [*vars(m)] for m in (np, math, builtins, np.linalg, np.random)},
        "traces": list(state.traces), "suspended": state.suspended, "unwatched": type(state.unwatched) is nullcontext,
        "locks": [lock._is_owned() for lock in locks.IN_ORDER], "profile": sys.getprofile(), "gc": gc.isenabled(),
        "reference": (reference.active, reference.threads, config.special), "errors": np.geterr(),
        "warnings": (list(warnings.filters), warnings.showwarning),
    }  # fmt: skip


def possible(world: World, x: Any) -> tuple[list[list[Any]], list[Any]]:
    """What may stand in each place, and in the argument, if the plain function is interrupted."""
    before, given = world.read(), x.copy()
    found, xs = [before], [x.copy()]

    def note(frame: types.FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes = frame.f_code.co_filename == "<users_own>"
        if event == "opcode" and frame.f_code.co_filename == "<users_own>" and not state.traces:
            found.append(world.read())
            xs.append(x.copy())
        return note

    old = sys.gettrace()
    sys.settrace(note)
    world.call(x)
    sys.settrace(old)
    found.append(world.read())
    xs.append(x.copy())
    world.write(before)
    x[:] = given
    return [list(values) for values in zip(*found, strict=True)], xs


class Kind:
    """What is interrupted: a way to call a function, and what it is compared with."""

    def __init__(self, source: str, places: tuple[str, ...], *, differentiated: bool = False) -> None:
        self.source, self.places, self.differentiated = source, places, differentiated
        self._known: dict[int, Any] = {}

    def world(self) -> World:
        """The function as it is called."""
        return World(self.source, self.places, (lambda f: lambda x: grad(f, x)) if self.differentiated else jit)

    def plain(self) -> World:
        """The function in plain Python."""
        return World(self.source, self.places, lambda f: f)

    def gradient(self, i: int) -> Any:
        """That of the i-th call, from a trace of its own."""
        if i not in self._known:
            config.compile = "never"
            self._known[i] = self.world().call(x_of(i))[1]
            config.compile = "always"
        return self._known[i]

    def compare(self, world: World, plain: World, i: int, x: Any, have: Any) -> None:
        """The call of the one is as the other one is called now."""
        y = x_of(i)
        want = plain.call(y)
        if self.differentiated:
            want = want, self.gradient(i)
        assert_same((have, x), (want, y))
        assert_same(world.read(), plain.read())


JIT = {"step": Kind(STEP, STEP_PLACES), "nested": Kind(NESTED, NESTED_PLACES)}
GRAD = {"reading": Kind(LOSS, LOSS_PLACES, differentiated=True),
        "storing": Kind(STORING, STORING_PLACES, differentiated=True)}


def bytecodes(kind: Kind, *, changing: bool) -> list[int]:
    """How many there are in each call of a sequence."""
    clear_caches()
    world, counts = kind.world(), list[int]()
    for i in range(CALLS):
        interrupter = Interrupter(changing=changing)
        with interrupter:
            world.call(x_of(i))
        counts.append(interrupter.seen)
    return counts


def play(kind: Kind, number: int, interrupter: Interrupter) -> None:
    """Interrupt one of several calls, look around, and go on."""
    clear_caches()
    world, plain = kind.world(), kind.plain()
    for i in range(number):
        kind.compare(world, plain, i, x := x_of(i), world.call(x))
    fixed, outside, x = world.fixed(), _outside(), x_of(number)
    may, xs = possible(plain, x_of(number))
    unraisable, sys.unraisablehook = sys.unraisablehook, lambda told: None  # pytest's keeps them, and their frames
    try:
        with interrupter:
            have = world.call(x)
    except interrupter.error:
        plain.write(world.read())
    else:  # a library has caught it, or there were fewer bytecodes
        kind.compare(world, plain, number, x, have)
    finally:
        sys.unraisablehook = unraisable
    if (stale := sys.exc_info()[1]) is not None:  # of an except block that was interrupted as it ended
        stale.__traceback__ = None
    said = f"interrupted in call {number} at {interrupter.at}: {interrupter.where}"
    assert left_behind() == [], said
    assert _outside() == outside, said
    assert world.fixed() == fixed, said
    for place, value, values in zip(kind.places, world.read(), may, strict=True):
        assert _fits(value, values), f"{place} is {value}; {said}"
    assert _fits(x, xs), said
    for i in range(number + 1, number + 1 + MORE):
        kind.compare(world, plain, i, x := x_of(i), world.call(x))
    assert left_behind() == [], said
    assert _outside() == outside, said
