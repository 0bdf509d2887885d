"""Numbers, arrays and containers that a function compares by identity: served as in the plain function, or refused."""

from __future__ import annotations

import operator
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import is_ as same
from queue import Queue
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import optree
import pytest

from yota_py import grad, gradient, jit
from yota_py.errors import YotaError


class Box:
    """Holds attributes."""


BEST = 2.0


def test_numbers_from_elsewhere_compared_by_identity() -> None:
    box = Box()
    box.b, box.items = 2.5, [1.5]  # type: ignore[attr-defined]

    def step(x: Any, n: Any, xs: Any, rate: Any = 0.25) -> Any:
        return (x is BEST, x is box.b, x is box.items[0], n is x, xs[0] is BEST, x is rate, n is xs[1])  # type: ignore[attr-defined]

    numbers = [1.25, BEST, box.b, box.items[0], 3.0, step.__defaults__[0]]  # type: ignore[index, attr-defined]
    compiled = jit(step)
    for i in range(24):
        x, n = numbers[i % 6], numbers[i * 5 % 6]
        args = x, n, [numbers[i // 6], n if i % 2 else 7.5]
        assert compiled(*args) == step(*args), i
    counts = jit(lambda n, k: n is k)
    assert [counts(1, k) for k in (1, 2, 5, 3, 1, 2)] == [True, False, False, False, True, False]


def test_gradients_of_functions_that_compare_numbers_by_identity() -> None:
    def f(x: Any) -> Any:
        return 10.0 if x is BEST else x * 2.0

    for _ in range(3):
        with pytest.raises(YotaError, match="one number is the same object as another"):
            grad(f, BEST)
        assert grad(f, 3.0) == (6.0, (2.0,))


class Star:
    """Compares itself with others, as data classes do from Python 3.13 on."""

    def __init__(self, at: Any, mass: Any) -> None:
        self.at, self.mass = at, mass

    def __eq__(self, other: object) -> Any:
        return self is other or (isinstance(other, Star) and self.at == other.at)

    __hash__ = object.__hash__

    def pull(self, others: list[Star]) -> Any:
        return sum(star.mass * self.mass / (self.at - star.at) ** 2 for star in others if star is not self)


def test_gradients_where_an_object_compares_itself() -> None:
    """What methods compare with their own object is no number, so numbers may be the same."""

    def f(x: Any, y: Any) -> Any:
        stars = [Star(x, y), Star(3.0 * x, y)]
        same = stars[0] == stars[0]
        return sum(star.pull(stars) for star in stars) * (1.0 if same else 2.0)

    for x in (BEST, 3.0, BEST):
        value, slopes = grad(f, x, x)
        assert value == pytest.approx(0.5) == f(x, x)
        assert slopes == pytest.approx((-1.0 / x, 1.0 / x))
    compiled = jit(f)
    for x in (BEST, 3.0, BEST, 5.0):
        assert compiled(x, x) == f(x, x)


def test_gradients_of_functions_whose_own_argument_is_called_self() -> None:
    def f(self: Any) -> Any:
        return 10.0 if self is BEST else self * 2.0

    with pytest.raises(YotaError, match="one number is the same object as another"):
        grad(f, BEST)


class Picking:
    """Compares numbers, or itself, with others."""

    def first(self, x: Any, y: Any, c: bool) -> Any:
        return 10.0 if (x if c else self) is y else 3.0 * x

    def second(self, x: Any, y: Any, c: bool) -> Any:
        return 10.0 if y is (x if c else self) else 3.0 * x


@pytest.mark.parametrize("name", ["first", "second"])
def test_methods_that_compare_themselves_or_a_number(name: str) -> None:
    method = getattr(Picking(), name)
    with pytest.raises(YotaError, match="one number is the same object as another"):
        grad(lambda x, y: method(x, y, True), BEST, BEST)
    step = jit(lambda x, y: method(x, y, True))
    for args in ((2.5, 3.0), (2.5, 3.0), (BEST, BEST), (3.0, 4.0), (BEST, BEST)):
        assert step(*args) == method(*args, True)


def test_numbers_compared_with_a_number_or_none() -> None:
    def f(x: Any, y: Any, c: bool = True) -> Any:
        return 10.0 if y is (x if c else None) else 3.0 * x

    with pytest.raises(YotaError, match="one number is the same object as another"):
        grad(f, BEST, BEST)
    assert grad(f, BEST, 3.0) == (6.0, (3.0, 0.0))


class Mark:
    """What is given where there is no number."""


MARK = Mark()
ARRAY = np.ones(3)
TABLE = {"a": ARRAY}
ITEMS = [ARRAY]
HOLDER = SimpleNamespace(w=ARRAY)
SCALAR = np.float64(2.0)


def itself(x: Any) -> Any:
    return x


def of_class(x: Any) -> Any:
    return x if x > 0.0 else type(x)


def in_thread(f: Callable[[], Any]) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(f()))
    thread.start()
    thread.join()
    return answers[0]


POOL: Any = None  # its thread is there before a trace begins
JOBS: Queue[Any] = Queue()


def work() -> None:
    while (job := JOBS.get()) is not None:
        function, answers = job
        answers.put(function())


@pytest.fixture(autouse=True, scope="module")
def _waiting_threads() -> Iterator[None]:
    global POOL
    thread = threading.Thread(target=work)
    thread.start()
    with ThreadPoolExecutor(1) as POOL:
        POOL.submit(int).result()
        yield
    JOBS.put(None)
    thread.join()


def in_waiting_thread(f: Callable[[], Any]) -> Any:
    answers: Queue[Any] = Queue()
    JOBS.put((f, answers))
    return answers.get()


class Numbers:
    """Methods that are called with numbers as their own objects, or give them that name."""

    def first(self: Any, y: Any) -> Any:
        return self is y

    def second(self, x: Any, y: Any) -> Any:
        self = x
        return self is y

    def third(self, x: Any, y: Any) -> Any:
        self = x
        return any(self is other for other in [y])

    def fourth(self, x: Any, y: Any) -> Any:
        def inner(self: Any) -> Any:
            return self is y

        return inner(x)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)
    LITERAL = eval("lambda x: x is 2.0")

NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "call": lambda x, y: itself(x) is y,
    "call last": lambda x, y: y is itself(x),
    "class of something else": lambda x, y: (x if x > 0.0 else type(x)) is y,
    "class or number": lambda x, y: y is (x if x > 0.0 else x.__class__),
    "class of a class called": lambda x, y: type(itself)(itself.__code__, {})(x) is y,
    "mark": lambda x, y: y is (x if x > 0.0 else MARK),
    "constant": lambda x, y: y is (x if x > 0.0 else "mark"),
    "operator": lambda x, y: operator.is_(x, y),
    "operator renamed": lambda x, y: same(x, y),
    "operator mapped": lambda x, y: all(map(operator.is_, [x], [y])),
    "operator mapped, renamed": lambda x, y: all(map(same, [x], [y])),
    "another thread": lambda x, y: in_thread(lambda: x is y),
    "a pool of threads": lambda x, y: POOL.submit(lambda: x is y).result(),
    "a waiting thread": lambda x, y: in_waiting_thread(lambda: x is y),
    "not": lambda x, y: not x is not y,
    "first of a chain": lambda x, y: x is y is not MARK,
    "last of a chain": lambda x, y: MARK is not x is y,
    "walrus": lambda x, y: (z := x) is y or z is None,
    "or": lambda x, y: (x or MARK) is y,
    "and": lambda x, y: y is (MARK and x),
    "item": lambda x, y: [x][0] is y,
    "iteration": lambda x, y: any(z is y for z in [x]),
    "method unbound": lambda x, y: Numbers.first(x, y),
    "method assigns": lambda x, y: Numbers().second(x, y),
    "method assigns, inner": lambda x, y: Numbers().third(x, y),
    "method, inner argument": lambda x, y: Numbers().fourth(x, y),
    "default": lambda x, y, f=lambda x, y: x is y: f(x, y),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_one_number_given_twice(name: str) -> None:
    """All of these are true of one object: refused with a gradient, and called as they are by a step."""
    are_same = NUMBERS[name]

    def f(x: Any, y: Any) -> Any:
        return 10.0 * y if are_same(x, y) else 3.0 * x

    assert f(BEST, BEST) == 20.0
    for _ in range(3):
        with pytest.raises(YotaError, match=r"one number is the same object as another \(x is y\), and two are"):
            grad(f, BEST, BEST)
        assert grad(f, BEST, 3.0) == (6.0, (3.0, 0.0))
    step = jit(f)
    for args in ((2.5, 3.0), (BEST, BEST), (3.0, 4.0), (2.5, 3.0), (BEST, BEST), (4.0, 4.5)):
        assert step(*args) == f(*args)


@pytest.mark.parametrize("f", [
    LITERAL, lambda x: +x is x, lambda x: x.real is x, lambda x: x is (x if x > 3.0 else BEST),
    lambda x: x is Box.best, lambda x: Box.best is x,  # type: ignore[attr-defined]
])  # fmt: skip
def test_a_number_that_is_found_elsewhere(f: Callable[[Any], Any]) -> None:
    Box.best = BEST  # type: ignore[attr-defined]
    x = LITERAL.__code__.co_consts[1] if f is LITERAL else BEST
    assert f(x)
    with pytest.raises(YotaError, match="one number is the same object as another"):
        grad(lambda x: 10.0 * x if f(x) else 3.0 * x, x)
    with pytest.raises(YotaError, match="one number is the same object as another"):
        grad(lambda x: 10.0 * x if SCALAR.real is x else 3.0 * x, SCALAR)


def test_whole_numbers_that_are_computed() -> None:
    """Of small ones Python has each only once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        fs = [eval(f"lambda n, k, x: 10.0 * x if {text} else 3.0 * x")
              for text in ("n % 2 is 0", "n + 1 is k", "n is 2", "2 is n", "x is 2.0", "-n is k")]
    for f in fs:
        step = jit(f)
        for n, k in ((2, 3), (4, 3), (2, 3), (3, 4), (-5, 5), (6, 3), (2, -2), (1000, 1001)):
            assert step(n, k, BEST) == f(n, k, BEST)


ARRAYS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arrays": (lambda x, y: x is y, (ARRAY, ARRAY)),
    "scalars": (lambda x, y: x is y, (SCALAR, SCALAR)),
    "real part": (lambda x, y: x.real is x, (SCALAR, SCALAR)),
    "global": (lambda x, y: y is ARRAY, (3.0, ARRAY)),
    "attribute": (lambda x, y: HOLDER.w is y, (3.0, ARRAY)),
    "item": (lambda x, y: x[0] is y, ([ARRAY], ARRAY)),
    "any": (lambda x, y: any(z is y for z in x), ([ARRAY], ARRAY)),
    "lists": (lambda x, y: x is y, (ITEMS, ITEMS)),
    "list in a list": (lambda x, y: x[0] is y, ([ITEMS], ITEMS)),
    "global list": (lambda x, y: y is ITEMS, (3.0, ITEMS)),
    "dicts": (lambda x, y: x is y, (TABLE, TABLE)),
    "global dict": (lambda x, y: y is TABLE, (3.0, TABLE)),
    "operator": (lambda x, y: operator.is_(x, y), (TABLE, TABLE)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_one_array_or_container_given_twice(name: str) -> None:
    are_same, args = ARRAYS[name]

    def total(x: Any) -> Any:
        return sum(map(total, x.values() if isinstance(x, dict) else x)) if isinstance(x, dict | list) else np.sum(x)

    def f(x: Any, y: Any) -> Any:
        return total(y) if are_same(x, y) else 2.0 * total(y)

    assert f(*args) == total(args[1])
    for _ in range(3):
        with pytest.raises(YotaError, match="is the same object as another"):
            grad(f, *args)
    step = jit(f)
    assert [step(*args) for _ in range(4)] == [f(*args)] * 4


class Node:
    """A tree that is searched by identity."""

    def __init__(self, value: Any, parent: Any = None) -> None:
        self.value, self.parent, self.children = value, parent, list[Any]()

    def total(self) -> Any:
        return self.value + sum(child.total() for child in self.children if child.parent is self)


FAR = object()


def natural(x: Any, y: Any) -> Any:
    """Compares what is no number in all ways that people write."""
    get: dict[str, Any] = {"near": MARK, "far": FAR}
    root = Node(x)
    root.children = [Node(y, root), Node(3.0 * y, root), Node(x, MARK)]
    kinds = [type(x) is float, type(x) is type(y), x.__class__ is y.__class__, int is type(x), type(x) is not int]
    marks = [get["near"] is MARK, get["near"] is get["far"], get.get("x", FAR) is FAR, itself(MARK) is FAR]
    nodes = [root.children[0].parent is root, root.children[-1] is not root, x is None, None is y, root is not itself]
    nodes += [a is b for a in root.children for b in root.children] + [root.children[0].parent is x.__class__]
    return root.total() * (1.0 + sum(kinds)) + sum(map(float, marks + nodes)) * x * y


def test_comparisons_of_what_is_no_number() -> None:
    """One number may be given twice to a function that compares other things."""
    for x in (BEST, 3.0, BEST):
        value, (a, b) = grad(natural, x, x)
        assert value == natural(x, x)
        near = [(natural(x + s, x + t) - natural(x - s, x - t)) / 2e-6 for s, t in ((1e-6, 0.0), (0.0, 1e-6))]
        assert [a, b] == pytest.approx(near, rel=1e-6)
    step = jit(natural)
    for x in (BEST, 3.0, BEST, 4.0):
        assert step(x, x) == natural(x, x)


def test_arguments_that_are_no_numbers() -> None:
    """A local name that is assigned nowhere is what the function is called with."""

    def pick(kind: Any, other: Any, x: Any, y: Any) -> Any:
        return x * y if kind is other else x + y

    for kind in (MARK, "a", np.add, None, Mark):
        assert grad(partial(pick, kind, MARK), BEST, BEST)[0] == 4.0
        want = (BEST, BEST) if kind is MARK else (1.0, 1.0)
        assert grad(partial(pick, MARK, kind), BEST, BEST)[1] == want
    with pytest.raises(YotaError, match="one number is the same object"):
        grad(lambda x, y: pick(x, y, x, y), BEST, BEST)
    slope = gradient(lambda x, y: pick(MARK, FAR, x, 2.0 * y))
    for x in (2.5, BEST, BEST, 3.0):
        assert slope(x, x) == 1.0


def test_gradients_within_gradients() -> None:
    """The trace around another hears of the functions that are called."""

    def inner(a: Any, b: Any) -> Any:
        return 10.0 * a if a is b else 3.0 * a * b

    def elsewhere(a: Any) -> Any:
        return 10.0 * a if a is BEST else 3.0 * a

    def around(x: Any) -> Any:
        return grad(lambda z: z * z if z is x else 3.0 * z, x)[0]

    for f in (lambda x: grad(inner, x, x)[0], lambda x: x * grad(elsewhere, BEST)[0], around):
        for x in (BEST, 3.0, BEST):
            for call in (f, lambda x, f=f: grad(f, x)):
                with pytest.raises(YotaError, match="one number is the same object"):
                    call(x)
    assert grad(lambda x: x * grad(elsewhere, 3.0)[0], 5.0) == (45.0, (9.0,))
    assert grad(lambda x: grad(inner, x, 3.0)[0], BEST) == (18.0, (9.0,))


def test_arrays_that_become_one_after_compiling() -> None:
    others, pair = [np.zeros(3), ARRAY.copy()], (ARRAY, np.zeros(3))

    def arrays(x: Any, y: Any) -> Any:
        return np.sum(x) if x is y else 2.0 * np.sum(y * y)

    def lists(x: Any, y: Any) -> Any:
        return np.sum(x[0]) if x is y else 2.0 * np.sum(y[0] * y[0])

    def read(x: Any, y: Any) -> Any:
        return np.sum(x * y) if any(x is other for other in others) else 3.0 * np.sum(x * others[0] + y)

    def tuples(x: Any, y: Any) -> Any:
        return np.sum(y) if x is pair else 3.0 * np.sum(x[0] * pair[1] + y)

    for f, args, twice in (
        (arrays, (ARRAY, others[0]), (ARRAY, ARRAY)), (lists, ([ARRAY], [others[0]]), (ITEMS, ITEMS)),
        (read, (ARRAY, ARRAY.copy()), (others[1], ARRAY)), (tuples, ((others[1], ARRAY), ARRAY), (pair, others[1])),
    ):  # fmt: skip
        grad.compile(f, *args)
        want = grad(f, *args)
        for _ in range(3):
            assert str(grad(f, *args)) == str(want)
            assert grad(f, *args)[0] == f(*args)
            with pytest.raises(YotaError, match="one array, list, tuple or dict is the same object"):
                grad(f, *twice)


CONFIG = (1, 2.5)
SETTINGS = {"rate": 0.5, "names": ["a", "b"]}


def test_containers_that_are_read_as_well_are_no_arrays() -> None:
    """Where arrays are compared, a container may be given and read: the arrays in it count."""

    def f(x: Any, y: Any, config: Any, settings: Any) -> Any:
        rate = CONFIG[1] * SETTINGS["rate"] * settings["rate"]  # type: ignore[operator]
        return np.sum(x) * rate if x is y else 2.0 * np.sum(x * y) * config[0] * rate

    other = ARRAY.copy()
    for _ in range(4):
        value, (dx, dy, *_) = grad(f, ARRAY, other, CONFIG, SETTINGS)
        assert value == f(ARRAY, other, CONFIG, SETTINGS)
        assert np.array_equal(dx, 1.25 * other) and np.array_equal(dy, 1.25 * ARRAY)
        with pytest.raises(YotaError, match="is the same object as another"):
            grad(f, ARRAY, ARRAY, CONFIG, SETTINGS)
    with pytest.raises(YotaError, match="is the same object as another"):  # the arrays in one list are the same
        grad(lambda x, y: np.sum(x[0]) if x[0] is y[0] else 2.0 * np.sum(y[0]), ITEMS, ITEMS)


def test_comparing_runs_nothing_of_the_users() -> None:
    opened = []

    def flatten_one(box: Boxed) -> tuple[tuple[Any, ...], None, None]:
        opened.append(box)
        return (box.value,), None, None

    optree.register_pytree_node(Boxed, flatten_one, lambda _, items: Boxed(*items), namespace="yota_py")  # type: ignore[arg-type]
    try:
        one, other = Boxed(2.0), Boxed(3.0)
        boxes = [one, other] * 20
        want = grad(lambda x: x * sum(box is one for box in [one, other]), 2.0)
        few = len(opened)
        assert want == (2.0, (1.0,))
        assert grad(lambda x: x * sum(box is one for box in boxes), 2.0) == (40.0, (20.0,))
        assert len(opened) <= 2 * few + 2, len(opened)
    finally:
        optree.unregister_pytree_node(Boxed, namespace="yota_py")


class Boxed:
    def __init__(self, value: Any) -> None:
        self.value = value


LAST: Any = MARK


def test_names_that_others_assign() -> None:
    """What a name stands for when a function is called may have changed when it compares."""

    def nonlocal_name(x: Any, y: Any) -> Any:
        last: Any = MARK

        def put(value: Any) -> None:
            nonlocal last
            last = value

        def get() -> Any:
            put(x)
            return last is y

        return 10.0 * y if get() else 3.0 * x

    def global_name(x: Any, y: Any) -> Any:
        put_last(x)
        try:
            return 10.0 * y if LAST is y else 3.0 * x
        finally:
            put_last(MARK)

    def attribute(x: Any, y: Any) -> Any:
        Box.best = x  # type: ignore[attr-defined]
        try:
            return 10.0 * y if Box.best is y else 3.0 * x  # type: ignore[attr-defined]
        finally:
            Box.best = MARK  # type: ignore[attr-defined]

    def resumed(x: Any, y: Any) -> Any:
        last: Any = MARK

        def same() -> Any:
            while True:
                yield last is y

        answers = same()
        next(answers)
        last = x
        return 10.0 * y if next(answers) else 3.0 * x

    for f in (nonlocal_name, global_name, attribute, resumed):
        assert f(BEST, BEST) == 20.0
        with pytest.raises(YotaError, match=r"one number is the same object"):
            grad(f, BEST, BEST)
        assert grad(f, BEST, 3.0) == (6.0, (3.0, 0.0))


def put_last(value: Any) -> None:
    global LAST
    LAST = value


class Body:
    """One of several, with numbers that may be the same."""

    def __init__(self, mass: Any, x: Any) -> None:
        self.mass, self.x = mass, x
        self.next: Any = None


BODIES = [Body(1.0, 0.0), Body(1.0, 2.0), Body(3.0, 5.0)]


def energy(g: Any) -> Any:
    return sum(-g * a.mass * b.mass / abs(a.x - b.x) for a in BODIES for b in BODIES if a is not b)


def energy_of(bodies: Any) -> Any:
    total = 0.0
    for a in bodies:
        for b in bodies:
            if a is not b:
                total = total - a["mass"] * b["mass"] / (a["x"] - b["x"]) ** 2
    return total


def linked(x: Any, y: Any) -> Any:
    tail = Body(y, x)
    head, tail.next = Body(x, y), None
    head.next = tail
    total, one = 0.0, head
    while one is not tail:
        total, one = total + one.mass * one.x, one.next
    return total + 2.0 * one.mass


def layers(weights: Any, x: Any) -> Any:
    last = weights[-1]
    for layer in weights:
        x = layer["w"] * x + layer["b"]
        if layer is not last and layer is not weights[-1]:
            x = np.tanh(x)
    return x


def test_natural_programs_with_equal_numbers() -> None:
    """Loop variables, attributes and items are looked at when they are compared."""
    same_layers = [{"w": 1.0, "b": 0.0}, {"w": 1.0, "b": 0.0}]
    for g in (1.0, 2.0, 1.0):
        assert grad(energy, g) == (energy(g), (energy(1.0),))
        assert grad(linked, g, g) == (linked(g, g), (g, g + 2.0))
        value, (slopes, slope) = grad(layers, same_layers, g)
        assert value == layers(same_layers, g) == np.tanh(g)
        assert slope == pytest.approx(1.0 - np.tanh(g) ** 2) and slopes[1] == {"w": np.tanh(g), "b": 1.0}
        bodies = [{"mass": g, "x": 0.0}, {"mass": g, "x": 1.0}]
        value, (slopes,) = grad(energy_of, bodies)
        assert value == energy_of(bodies) == -2.0 * g * g and slopes[0]["mass"] == -2.0 * g


class Reading:
    """A class attribute that is computed when it is asked for."""

    count = 0

    def __get__(self, obj: Any, cls: Any) -> Any:
        Reading.count += 1
        if cls.fails:
            raise RuntimeError("not configured")
        return MARK


class Computed:
    """Has one."""

    fails = True
    mark = Reading()


def test_comparing_runs_no_code_of_the_users() -> None:
    """Descriptors are asked when the function asks them, and only then."""

    def f(x: Any, y: Any) -> Any:
        return x if x < 0.0 and Computed.mark is y else x * 2.0 + y

    assert grad(f, 1.5, 2.5) == (5.5, (2.0, 1.0))
    assert Reading.count == 0
    Computed.fails = False
    assert grad(f, -1.5, 2.5)[0] == f(-1.5, 2.5) and Reading.count >= 2


def test_modules_that_load_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = ModuleType("lazy_parts")

    def load(name: str) -> Any:
        raise ImportError(f"no {name}")

    lazy.__getattr__ = load  # type: ignore[method-assign]
    monkeypatch.setitem(globals(), "LAZY", lazy)
    f = eval("lambda x, y: x if x < 0.0 and LAZY.part is y else x * 2.0 + y", globals())
    assert grad(f, 1.5, 2.5) == (5.5, (2.0, 1.0))
    with pytest.raises(ImportError, match="no part"):
        grad(f, -1.5, 2.5)


def test_containers_that_are_given_twice_and_changed() -> None:
    def change_list(x: Any, y: Any) -> Any:
        x[0] = x[0] * 2.0
        return y[0] * 3.0 + x[0]

    def change_dict(x: Any, y: Any) -> Any:
        x["a"] = x["a"] * 2.0
        return y["a"] * 3.0 + x["a"]

    def extend(x: Any, y: Any) -> Any:
        x.append(2.0)
        return sum(y) * x[0]

    for f, make in ((change_list, lambda: [1.5]), (change_dict, lambda: {"a": 1.5}), (extend, lambda: [1.5])):
        for _ in range(3):
            one = make()
            want = grad(f, make(), make())
            assert want[0] == f(make(), make())
            with pytest.raises(YotaError, match="given twice"):
                grad(f, one, one)
            assert one == make()
            assert grad(f, make(), make()) == want


def test_containers_that_a_function_changes_for_itself() -> None:
    def into_itself(d: Any, x: Any) -> Any:
        d["me"] = d
        return x * d["a"]

    def others(d: Any, x: Any) -> Any:
        d.pop("b")
        d["c"] = np.ones(2)
        return x * d["a"]

    for f in (into_itself, others):
        for a in (2.0, 3.0, 2.0):
            value, (slopes, slope) = grad(f, {"a": a, "b": 1.0}, 3.0)
            assert (value, slopes["a"], slope) == (3.0 * a, 3.0, a)


def test_debuggers_and_profilers() -> None:
    """A trace function of the user's stays, and comparisons are heard of all the same."""
    events: list[str] = []

    def local(frame: Any, event: str, arg: Any) -> Any:
        events.append(event)
        return local

    for hook, start in ((local, sys.settrace), (lambda *args: None, sys.setprofile)):
        before = sys.gettrace(), sys.getprofile()
        start(hook)
        try:
            with pytest.raises(YotaError, match="one number is the same object"):
                grad(lambda x, y: 10.0 if itself(x) is y else 3.0 * x, BEST, BEST)
            value = grad(linked, 3.0, 4.0)
        finally:
            sys.settrace(before[0])
            sys.setprofile(before[1])
        assert value == (linked(3.0, 4.0), (4.0, 5.0))
    assert "line" in events and "opcode" not in events
