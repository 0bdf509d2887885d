"""Functions that print: compiled, interpreted and audited they print what plain Python would, once at each call."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import yota_py
from yota_py import config, explain, grad, gradtape, jit, pullback, stop_gradient, trace, value_and_grad
from yota_py.cache import outputs

XS = (1.0, 2.0, 3.0, -1.0, 2.0, -2.0, 5.0, -1.0)
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: lambda *args: grad(f, *args), "value_and_grad": value_and_grad, "jit": jit,
    "pullback": lambda f: lambda *args: pullback(f, *args),
}  # fmt: skip
transforms = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


def printed(f: Callable[..., Any], *args: Any) -> str:
    """What a call prints, and what it raises, as a line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            f(*args)
        except (ValueError, TypeError) as error:
            print(repr(error))
    return out.getvalue() + err.getvalue()


def agree(make: Callable[[], Any], transform: Any, inputs: Sequence[Any] = XS) -> Any:
    """What is printed is right at each call; returns the function, which was called."""
    plain, f = make(), make()
    made = transform(f)
    for x in inputs:
        assert printed(made, x) == printed(plain, x) != ""
    return made if hasattr(made, "__yota_cache__") else f


def served(f: Any) -> int:
    return sum(each.calls for each in explain(f))


# -- what is printed


def several() -> Any:
    def f(x: Any) -> Any:
        print("x is", x)
        y = np.sin(x) * 2.0
        print("and", y, [x, (y, 1)], {"k": x * y}, sep="; ", end="!\n", flush=True)
        print(x, file=sys.stderr)
        print()
        print(*[x, 2.0 * x], sep="\n", file=sys.stdout)
        return y

    return f


def branches() -> Any:
    def f(x: Any) -> Any:
        print("start", x)
        if x > 0:
            print("positive", x * 2)
            y = x * x
        else:
            y = -x
        print("end", y)
        return y

    return f


def raising() -> Any:
    def f(x: Any) -> Any:
        print("before", x)
        if x < 0:
            raise ValueError("negative")
        print("after")
        return x * x

    return f


def nested() -> Any:
    def f(x: Any) -> Any:
        def inner(z: Any) -> Any:
            print("inner", z, x)
            return z * z * x

        value, (slope,) = grad(inner, x + 1.0)
        print("outer", value, slope)
        return value * 1.0

    return f


def loops() -> Any:
    def f(x: Any) -> Any:
        for i in range(120):
            x = 0.5 * x + float(i)
            if i % 25 == 0:
                print(i, x)
        for i in range(20):
            x = np.maximum(0.5 * x, 3.0)
            print(i, x)
        return x

    return f


def kinds() -> Any:
    def f(x: Any) -> Any:
        print(x > 0, np.float32(2) * np.float32(x > 1), np.array(x), [np.array([x, 1.0])], x + 1j, type(x), None)
        a = np.arange(6).reshape(2, 3)
        print(a, len(a), a.shape, a.dtype, a[0] * 2, b"bytes", ..., range(3))
        print(stop_gradient(x), np.bool_(True), 2**70)
        return x * x

    return f


def names() -> Any:
    say, quoting = print, functools.partial(print, "q")

    def f(x: Any, also: Any = print) -> Any:
        builtins.print("b", x)
        say("s", x)
        quoting(x)
        also("a", x)
        return x * x

    return f


def nothing_traced() -> Any:
    def f(x: Any) -> Any:
        print("text")
        return x * x

    return f


def unused() -> Any:
    def f(x: Any) -> Any:
        print(np.exp(x) * 3.0)
        return x

    return f


MADE = [several, branches, raising, nested, loops, kinds, names, nothing_traced, unused]


@transforms
@pytest.mark.parametrize("make", MADE)
def test_what_is_printed(make: Any, transform: Any, every_policy: None) -> None:
    f = agree(make, transform)
    if config.compile == "always" and transform is not TRANSFORMS["pullback"]:
        assert served(f) >= 4


@pytest.mark.parametrize("make", MADE)
def test_checked(make: Any) -> None:
    config.check = True
    for transform in (value_and_grad, jit):
        agree(make, transform)


@pytest.mark.parametrize("transform", [value_and_grad, jit])
def test_by_default(transform: Any) -> None:
    config.compile, config.audit = "auto", "sampled"

    def make() -> Any:
        w = np.ones(20)

        def f(x: Any) -> Any:
            print("begin", x.shape)
            for i in range(30):
                x = np.maximum(x, 0.5) * w + float(i)
            print("end", np.max(x))
            return np.sum(x)

        return f

    f = agree(make, transform, [np.full(20, float(i)) for i in range(150)])
    assert served(f) or transform is jit  # which may never pay


def test_in_the_background() -> None:
    config.compile, config.background = "auto", True

    def make() -> Any:
        def f(x: Any) -> Any:
            for i in range(150):
                x = np.maximum(x, 0.5) + (float(i) if i % 2 else x)
                x = x / 2.0
            print("x", x)
            return np.sum(x)

        return f

    agree(make, value_and_grad, [np.full(3, float(i)) for i in range(60)])


def test_large_arrays_once() -> None:
    config.compile = "auto"

    def f(x: Any) -> Any:
        print("x", x[0])
        return np.sum(np.sin(x) ** 2)

    df = value_and_grad(f)
    for i in range(4):
        assert printed(df, np.full(2_000_000, float(i))) == f"x {float(i)}\n"


def test_in_turns(every_policy: None) -> None:
    first, second = several(), branches()
    plain = several(), branches()
    for x in XS:
        assert printed(lambda x: grad(first, x), x) == printed(plain[0], x)
        assert printed(lambda x: grad(second, x), x) == printed(plain[1], x)


# -- with other effects


def arrays() -> Any:
    w = np.ones(3)

    def f(x: Any) -> Any:
        print(w, x)
        w[0] = w[0] + 1.0
        print("now", w, w[1:])
        w[:] = w * 0.5 + x
        print(w)
        return np.sum(w)

    return f


def counting() -> Any:
    class State:
        n, last = 0, None

    state = State()
    history: list[Any] = []

    def f(x: Any) -> Any:
        state.n += 1
        print("step", state.n, "after", state.last)
        state.last = x * state.n
        history.append(state.last)
        print(state.last)
        return x * state.n

    return f


def drawing() -> Any:
    rng = np.random.default_rng(1)

    def f(x: Any) -> Any:
        print("first", rng.standard_normal())
        y = x * rng.random()
        print("second", y)
        print("third", rng.standard_normal(2) * x)
        return y

    return f


@pytest.mark.parametrize("make", [arrays, counting, drawing])
def test_with_state(make: Any, every_policy: None) -> None:
    assert served(agree(make, jit)) or config.compile == "auto"


def test_draws_and_stores_in_a_gradient(every_policy: None) -> None:
    agree(drawing, value_and_grad)
    agree(counting, value_and_grad)


def test_a_training_step(every_policy: None) -> None:
    def make() -> Any:
        w = np.zeros(3)

        def step(x: Any) -> Any:
            def loss(w: Any) -> Any:
                print("in", w[0])
                return np.sum((w - x) ** 2)

            value, dw = value_and_grad(loss)(w)
            print("loss", value, "gradient", dw)
            w[:] = w - 0.25 * dw
            return value

        return step

    agree(make, jit)


def test_a_stream_that_fails() -> None:
    """An exception that a stream raises comes as in plain Python, and what was printed before it stays."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if "stop" in text:
                raise ValueError("full")
            return super().write(text)

    def f(x: Any) -> Any:
        print("x", x)
        print("stop" if x is None else "go")
        return x * x

    df = value_and_grad(f)
    for x in XS[:3]:
        out = Full()
        with contextlib.redirect_stdout(out):
            df(x)
        assert out.getvalue() == f"x {x}\ngo\n"


# -- where it goes


class Tee:
    """A stream that is written in Python."""

    def __init__(self, to: Any) -> None:
        self.to, self.writes = to, 0

    def write(self, text: str) -> None:
        self.writes += 1
        self.to.write(text)

    def flush(self) -> None:
        self.to.flush()


def test_streams_are_looked_up_at_each_call(every_policy: None) -> None:
    df, plain = jit(several()), several()
    for x in XS:
        outs = [(io.StringIO(), io.StringIO()) for _ in range(2)]
        for f, (out, err) in zip((df, plain), outs, strict=True):
            with contextlib.redirect_stdout(Tee(out)), contextlib.redirect_stderr(err):  # type: ignore[type-var]
                f(x)
        assert outs[0][0].getvalue() == outs[1][0].getvalue() != ""
        assert outs[0][1].getvalue() == outs[1][1].getvalue() != ""


def test_one_stream_for_both(every_policy: None) -> None:
    def f(x: Any) -> Any:
        print("out", x, file=sys.stdout)
        print("err", x, file=sys.stderr)
        return x * x

    for transform in (value_and_grad, jit):
        made = transform(f)
        for x in XS:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                made(x)
            assert (out.getvalue(), err.getvalue()) == (f"out {x}\n", f"err {x}\n")
            assert printed(made, x) == f"out {x}\nerr {x}\n"


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("transform", [value_and_grad, jit])
def test_files(transform: Any, every_policy: None) -> None:
    log = io.StringIO()

    def f(x: Any) -> Any:
        print("x", x, file=log)
        return x * x

    def g(x: Any, file: Any) -> Any:
        print("x", x, file=file)
        return x * x

    made, given = transform(f), transform(g)
    for x in XS:
        made(x)
        given(x, log)
    assert log.getvalue() == "".join(f"x {x}\nx {x}\n" for x in XS)


def test_a_patched_print(monkeypatch: pytest.MonkeyPatch, every_policy: None) -> None:
    f, said = nothing_traced(), []
    df = value_and_grad(f)
    for n in range(4):
        assert printed(df, 2.0 + n) == "text\n"
    with monkeypatch.context() as patching:
        patching.setattr(builtins, "print", lambda *args: said.append(args))
        for n in range(4):
            df(2.0 + n)
        assert said == [("text",)] * 4
    assert printed(df, 2.0) == "text\n"


def test_a_print_of_ones_own(every_policy: None) -> None:
    namespace: dict[str, Any] = {"log": []}
    exec("def f(x):\n print('x', x)\n return x * x", namespace)
    f = namespace["f"]
    assert [printed(lambda x: grad(f, x), x) for x in XS[:3]] == [f"x {x}\n" for x in XS[:3]]
    exec("def print(text, x):\n log.append(text)", namespace)
    assert [printed(lambda x: grad(f, x), x) for x in XS[:3]] == [""] * 3
    assert namespace["log"] == ["x"] * 3
    del namespace["print"]
    assert [printed(lambda x: grad(f, x), x) for x in XS[:3]] == [f"x {x}\n" for x in XS[:3]]


def test_threads(every_policy: None) -> None:
    f = several()
    df = value_and_grad(f)
    out = io.StringIO()

    def work() -> None:
        for x in XS:
            df(x)

    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    lines = out.getvalue().splitlines()
    assert sorted(lines) == sorted("".join(printed(several(), x) for x in XS).splitlines() * 4)


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("transform", [value_and_grad, jit])
def test_threads_that_the_function_starts(transform: Any, every_policy: None) -> None:
    def f(x: Any) -> Any:
        worker = threading.Thread(target=lambda: print("in a thread"))
        worker.start()
        worker.join()
        print("x", x)
        return x * x

    made = transform(f)
    for x in XS:
        assert printed(made, x) == f"in a thread\nx {x}\n"


def test_other_threads_meanwhile() -> None:
    """What another thread prints while this one traces is none of the function's prints."""
    going, stop = threading.Event(), threading.Event()
    out = io.StringIO()

    def work() -> None:
        while not stop.is_set():
            print("elsewhere", file=out)
            going.set()

    def f(x: Any) -> Any:
        print("x", x)
        return x * x

    worker = threading.Thread(target=work)
    worker.start()
    try:
        going.wait(10.0)
        df = value_and_grad(f)
        assert [printed(df, x) for x in XS] == [f"x {x}\n" for x in XS]
        assert served(df) == len(XS) - 1
    finally:
        stop.set()
        worker.join()


# -- tapes, explanations, what is not followed


def test_on_tapes(capsys: pytest.CaptureFixture[str]) -> None:
    tape = trace(several(), 3.0)
    assert "= print('x is', %1)" in str(tape) and "print('and', %4, [%1, (%4, 1)]" in str(tape)
    assert capsys.readouterr().out.startswith("x is 3.0 (%1)\nand; 0.28")
    tape.play(2.0)
    assert capsys.readouterr().out.startswith("x is 2.0\nand; 1.81")
    tape = gradtape(several(), 3.0)
    assert "= print('x is', %1)" in str(tape)
    capsys.readouterr()
    tape.play(2.0)
    assert capsys.readouterr().out.startswith("x is 2.0\nand; 1.81")


def test_explained(capsys: pytest.CaptureFixture[str]) -> None:
    f = branches()
    grad.compile(f, 1.0)
    assert capsys.readouterr().out == "start 1.0\npositive 2.0\nend 1.0\n"
    said = explain(f)[0].entries[0].impure
    assert [line.partition(" ")[0] for line in said] == ["print"] * 3
    assert "runs again  print (test_printing.py" in repr(explain(f))


class Odd:
    n = 0

    def __str__(self) -> str:
        self.n += 1
        return f"odd {self.n}"


def with_object() -> Any:
    odd = Odd()
    return lambda x: [print(odd, x), x * x][1]


def with_iterator() -> Any:
    numbers = itertools.count()
    return lambda x: [print(next(numbers)), x * x][1]


NOT_FOLLOWED: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "object": with_object, "iterator": with_iterator,
    "text": lambda: lambda x: [print(f"x is {x:.3f}" + "!"), x * x][1],
    "write": lambda: lambda x: [sys.stdout.write("x\n"), x * x][1],
    "option": lambda: lambda x: [print(x, sep=3), x * x][1],  # type: ignore[call-overload]
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@transforms
@pytest.mark.parametrize("name", NOT_FOLLOWED)
def test_what_is_not_followed(name: str, transform: Any, every_policy: None) -> None:
    agree(NOT_FOLLOWED[name], transform)


def test_the_way_out_is_said() -> None:
    def f(x: Any) -> Any:
        text = f"x is {x:.3f}"
        print(text)
        return x * x

    with pytest.warns(yota_py.UncachedWarning, match=r"test_printing\.py:\d+: it prints a text.*print\(\"x is\", x\)"):
        printed(lambda x: grad(f, x), 2.0)
    with pytest.raises(yota_py.CompileError, match="it prints a text that is made of traced values"):
        printed(lambda x: grad.compile(f, x), 2.0)


def test_a_wrong_text_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An audit compares what is printed."""

    def f(x: Any) -> Any:
        print("word", x)
        return x * x

    grad.compile(f, 1.0)
    capsys.readouterr()
    config.audit = "always"
    texts = outputs.Telling.texts
    changed = lambda self, names: ((tell, to, args.replace("y", "2.0 + y"), kwargs)  # noqa: E731
                                   for tell, to, args, kwargs in texts(self, names))  # fmt: skip
    monkeypatch.setattr(outputs.Telling, "texts", changed)
    other = eval("lambda x: g(x)", {"g": f})
    grad.compile(other, 1.0)
    capsys.readouterr()
    with pytest.warns(yota_py.AuditWarning, match="what it prints"):
        for _ in range(2):  # where there are other threads, a difference has to come twice
            grad(other, 2.0)
    assert capsys.readouterr().out == "word 2.0\n" * 2
    assert grad(f, 3.0)[0] == 9.0 and capsys.readouterr().out == "word 3.0\n"
