"""Writes coverage.md: what becomes of every public function of NumPy, math, cmath, operator and SciPy in a gradient.

    python docs/make_coverage.py

Each function is called: with the cases of its rule, with arguments of ``coverage_arguments.py``, or with those of a
general set that it takes. It is *differentiable* if its result changes with its arguments, and value and gradient are
those of plain calls and of finite differences; *not differentiable* if a traced call works, and its result holds no
floating-point numbers or stays the same under small changes; all else is *refused*, for a reason that is the error's.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import inspect
import json
import operator
import os
import select
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from coverage_arguments import ARGUMENTS, GENERAL, NOT_CALLED
from coverage_calls import NO, REFUSED, YES, Late, UnsuitableError, attempt, begin

import yota_py
from yota_py.registry.patches import patched
from yota_py.registry.registry import Sample, primitive_of
from yota_py.tape.trees import flatten

PAGE = Path(__file__).with_name("coverage.md")

# How many of these names JAX 0.10.2 has, and Autograd 1.9.1 with a derivative of its own, which are not installed here.
JAX = {
    "numpy": 381, "numpy.linalg": 31, "numpy.fft": 18, "scipy.special": 52, "scipy.linalg": 40, "scipy.fft": 4,
    "scipy.stats": 7, "scipy.signal": 10, "scipy.integrate": 1, "scipy.interpolate": 1, "scipy.ndimage": 1,
    "scipy.spatial.transform": 2, "scipy.sparse.linalg": 3, "scipy.optimize": 1, "numpy.ndarray": 92,
    "methods of ufuncs": 35, "distributions": 106,
}  # fmt: skip
AUTOGRAD = {
    "numpy": 115, "numpy.linalg": 9, "numpy.fft": 14, "scipy.special": 30, "scipy.linalg": 4, "scipy.signal": 1,
    "scipy.integrate": 1, "numpy.ndarray": 59, "distributions": 22,
}  # fmt: skip

MODULES = [
    "numpy", "numpy.linalg", "numpy.fft", "operator", "math", "cmath", "scipy.special", "scipy.linalg", "scipy.fft",
    "scipy.stats", "scipy.signal", "scipy.signal.windows", "scipy.integrate", "scipy.interpolate", "scipy.ndimage",
    "scipy.spatial", "scipy.spatial.distance", "scipy.spatial.transform", "scipy.sparse", "scipy.sparse.linalg",
    "scipy.optimize",
]  # fmt: skip
CLASSES = {"numpy.ndarray": np.ndarray}  # whose methods and attributes are looked at
OF_ALL = "pdf logpdf pmf logpmf cdf logcdf sf logsf ppf isf mean var std median entropy".split()

ATTEMPTS = 40  # ways to call a function, where some give an answer
REASONS = (
    "is random", "reads or writes files", "takes too long", "returns text", "returns no numbers", "is not finite",
    "jumps", "is flat", "does not take other arguments", "does not tell",
)  # fmt: skip
WAYS = 5  # that are refused, or that give no derivative


@dataclass
class Item:
    """A function, as it is spelled."""

    group: str
    name: str
    spelling: str  # up to the arguments, of which the first stands before a method
    value: Any = None
    attribute: bool = False
    arguments: Callable[[], list[tuple[Any, ...]]] | None = None  # no others are tried

    @property
    def full(self) -> str:
        return f"{self.group}.{self.name}"


# ------------------------------------------------------------------------------------------ what there is


def items() -> list[Item]:
    """All of them, in order."""
    out = []
    for module in MODULES:
        found = importlib.import_module(module)
        names = dir(found) if module.startswith("numpy") else getattr(found, "__all__", dir(found))
        for name in sorted(set(names)):
            value = getattr(found, name, None)
            if name.startswith("_") or not callable(value) or inspect.ismodule(value) or _is_distribution(value):
                continue
            out.append(Item(module, name, f"{module}.{name}", value))
    for owner, cls in CLASSES.items():
        out += [Item(owner, name, f".{name}", getattr(cls, name), not callable(getattr(cls, name)))
                for name in sorted(dir(cls)) if not name.startswith("_")]  # fmt: skip
        out += [Item(owner, name, f".{name}", getattr(cls, name)) for name in sorted(dir(cls)) if _is_operator(name)]
    out += [Item("methods of ufuncs", f"{name}.{method}", f"numpy.{name}.{method}", getattr(ufunc, method))
            for name, ufunc in vars(np).items() if _is_binary(ufunc) and ufunc.__name__ == name
            for method in ("reduce", "accumulate", "reduceat", "outer", "at")]  # fmt: skip
    named = {item.full for item in out}
    for full in sorted(set(ARGUMENTS) - named):
        group = max((module for module in MODULES if full.startswith(module + ".")), key=len)
        out.append(Item(group, full.removeprefix(group + "."), full))
    return out + list(_distributions())


def _is_operator(name: str) -> bool:
    """Whether it is a special method for an operator, from the left or from the right."""
    known = {spelling.rstrip("_") for spelling in operator.__all__}
    return any(way in vars(operator) and way.strip("_") in known for way in (name, name.replace("__r", "__", 1)))


def _is_binary(value: Any) -> bool:
    """Whether it is a ufunc of two floats that gives one."""
    return isinstance(value, np.ufunc) and value.signature is None and value.nin == 2 and "dd->d" in value.types


def _is_distribution(value: Any) -> bool:
    return isinstance(value, scipy.stats.rv_continuous | scipy.stats.rv_discrete)


def _distributions() -> Iterator[Item]:
    """Each distribution with each method, at SciPy's own parameters for tests."""
    params = importlib.import_module("scipy.stats._distr_params")
    for name, shapes in [*dict(map(tuple, params.distcont)).items(), *dict(map(tuple, params.distdiscrete)).items()]:
        dist = getattr(scipy.stats, name, None) if isinstance(name, str) else None
        if dist is None:
            continue
        further = (*shapes, 0.5, 1.3) if isinstance(dist, scipy.stats.rv_continuous) else (*shapes, 1)
        for method in OF_ALL:
            if not hasattr(dist, method):
                continue
            yield Item("distributions", f"{name}.{method}", f"scipy.stats.{name}.{method}", getattr(dist, method),
                       arguments=partial(_at_quantiles, dist, method, further))  # fmt: skip


def _at_quantiles(dist: Any, method: str, further: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The arguments of a method: quantiles of 0.3 and 0.6, or these, where it takes some."""
    quantiles = np.array([0.3, 0.6])
    if method in ("ppf", "isf"):
        return [(quantiles, *further)]
    if method in OF_ALL[:8]:
        with np.errstate(all="ignore"):
            points = np.asarray(dist.ppf(quantiles, *further))
        return [(points.astype(int) if isinstance(dist, scipy.stats.rv_discrete) else points, *further)]
    return [further]


# --------------------------------------------------------------------------------------------- ways to call


def ways(item: Item, general: bool = True) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """Functions that call it as code does, with arguments."""
    given = [(args, {}) for args in item.arguments()] if item.arguments is not None else []
    for way in ARGUMENTS.get(item.full, []):
        if isinstance(way[0], str) and "a[" in way[0]:
            yield _typed(way[0]), way[1:], {}
        else:
            given.append((way, {}))
    for args, kwargs in [*given, *([] if item.arguments else _others(item, general))]:
        if item.attribute:
            text = f"a[0]{item.spelling}"
        else:
            start = item.spelling.startswith(".")
            inside = [f"a[{i}]" for i in range(start, len(args))] + [f"{key}=k[{key!r}]" for key in kwargs]
            text = f"{'a[0]' * start}{item.spelling}({', '.join(inside)})"
        if args or not item.spelling.startswith("."):
            yield _typed(text), args, kwargs


def _others(item: Item, general: bool) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    yield from _registered(item)
    yield from ((args, {}) for args in GENERAL if general)


def _typed(text: str) -> Callable[..., Any]:
    names = {name: importlib.import_module(name) for name in ("numpy", "scipy", "operator", "math", "cmath")}
    space = {**names, "np": np, "__name__": "coverage_call"}
    exec(f"def call(*a, **k):\n    return {text}", space)
    return space["call"]  # type: ignore[no-any-return]


def _registered(item: Item) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The cases of a function's rule, those of double precision first."""
    owner: Any = CLASSES.get(item.group) or sys.modules.get(item.group)
    entry = None if item.value is None else primitive_of(patched.get((owner, item.name), item.value))
    if entry is None or isinstance(owner, type):
        return
    cases = []
    for draw in entry.cases:
        with contextlib.suppress(Exception):
            cases += list(islice(draw(Sample(0)), 12))
    for narrow in (False, True):
        for case in cases:
            leaves = flatten((case.args, case.kwargs))[0]
            if narrow == any(getattr(x, "dtype", None) in (np.float16, np.float32, np.complex64) for x in leaves):
                yield case.args, dict(case.kwargs)


# ------------------------------------------------------------------------------------------------ one call


def examine(item: Item, general: bool = True) -> tuple[str, str]:
    """What the function is, and why; without the ``general`` arguments, what it is with those that are its own."""
    if (reason := NOT_CALLED.get(item.full) or NOT_CALLED.get(type(item.value).__name__)) is not None:
        return REFUSED, reason
    found: list[tuple[str, str]] = []
    without: Counter[str] = Counter()
    begin()
    for n, (call, args, kwargs) in enumerate(ways(item, general)):
        if max(Counter(kind for kind, _ in found).values(), default=0) == WAYS or (found and n > ATTEMPTS):
            break
        try:
            verdict = attempt(call, args, kwargs)
        except UnsuitableError as error:
            without[str(error)] += 1
            continue
        except Late:
            without["takes too long"] += 1
            break
        if verdict[0] == YES:
            return verdict
        found.append(verdict)
    for kind in (REFUSED, NO):
        if some := [verdict for verdict in found if verdict[0] == kind]:
            return some[0]
    if isinstance(item.value, type) and issubclass(item.value, BaseException):
        return REFUSED, "is an exception or warning"
    for reason in REASONS:
        if without[reason]:
            return REFUSED, "makes an object" if inspect.isclass(item.value) else reason
    return REFUSED, "is a class" if inspect.isclass(item.value) else "takes none of the arguments tried"


# ---------------------------------------------------------------------------------------------- all of them


def classify(wanted: list[Item], *, wait: float = 120.0, batch: int = 50) -> dict[str, tuple[str, str]]:
    """What each function is. They are called in processes of their own: what ends one is found, and costs no other."""
    out: dict[str, tuple[str, str]] = {}
    rest = list(wanted)
    while rest:
        done = _in_a_process(rest[:batch], wait)
        for item, answer in zip(rest, done, strict=False):
            out[item.full] = answer
        if len(done) < min(batch, len(rest)):
            again = _in_a_process(rest[len(done) : len(done) + 1], wait, general=False)
            done += again or [(REFUSED, "ends the process, or does not end")]
            out[rest[len(done) - 1].full] = done[-1]
        rest = rest[len(done) :]
    return out


def _in_a_process(batch: list[Item], wait: float, general: bool = True) -> list[tuple[str, str]]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        faulthandler.disable()  # pytest's would write about what is looked for
        yota_py.config.compile, yota_py.config.audit = "never", "off"
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for item in batch:
                try:
                    answer = examine(item, general)
                except BaseException as error:
                    answer = REFUSED, type(error).__name__
                os.write(write, json.dumps(answer).encode() + b"\n")
            os.chdir("/")
        os._exit(0)
    os.close(write)
    text = b""
    while select.select([read], [], [], wait)[0] and (more := os.read(read, 65536)):
        text += more
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    return [tuple(json.loads(line)) for line in text.decode().splitlines() if line.endswith("]")]


# ------------------------------------------------------------------------------------------------- the page


def page(wanted: list[Item], answers: dict[str, tuple[str, str]]) -> str:
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in wanted:
        groups[item.group].append(item)
    lines = [HEAD.format(numpy=np.__version__, scipy=scipy.__version__)]
    lines += ["| | differentiable | not differentiable | refused | JAX has | Autograd differentiates |",
              "|---|---|---|---|---|---|"]  # fmt: skip
    total: Counter[str] = Counter()
    for group, found in groups.items():
        counts = Counter(answers[item.full][0] for item in found)
        total += counts
        cells = group, counts[YES], counts[NO], counts[REFUSED], JAX.get(group, ""), AUTOGRAD.get(group, "")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    cells = "all", total[YES], total[NO], total[REFUSED], sum(JAX.values()), sum(AUTOGRAD.values())
    lines.append(f"| {' | '.join(map(str, cells))} |")
    for group, found in groups.items():
        lines += ["", f"## {group}", ""]
        kinds: dict[str, list[str]] = defaultdict(list)
        for item in found:
            kind, reason = answers[item.full]
            kinds[f"{kind}: {reason}" if reason else kind].append(item.name)
        order = sorted(kinds, key=lambda kind: (kind != YES, kind != NO, kind))
        lines += [f"- **{kind}** ({len(kinds[kind])}): {' '.join(_quoted(kinds[kind]))}" for kind in order]
    return "\n".join(lines) + "\n"


def _quoted(names: list[str]) -> Iterator[str]:
    """Names of functions; those of methods of one distribution together."""
    methods: dict[str, list[str]] = defaultdict(list)
    for name in names:
        owner, dot, method = name.partition(".")
        methods[owner + dot].append(method)
    return (f"`{owner}{','.join(each)}`" for owner, each in methods.items())


def read_page(text: str) -> dict[str, str]:
    """The class of each function that stands on a page."""
    out, group = {}, ""
    for line in text.splitlines():
        if line.startswith("## "):
            group = line[3:]
        elif line.startswith("- **"):
            kind = line[4:].partition("**")[0].partition(":")[0]
            for names in line.partition("): ")[2].replace("`", "").split():
                owner, dot, methods = names.partition(".")
                out |= {f"{group}.{owner}{dot}{method}": kind for method in methods.split(",")}
    return out


HEAD = """# Coverage

What becomes of every public function of NumPy {numpy}, of `math`, `cmath` and `operator`, and of SciPy {scipy}, in a
gradient. `make coverage` writes this page, and [a test](../tests/project/test_coverage.py) compares it with what it
finds. Each function is called, on the arguments with which its rule is tested or on others that it takes. It is

- *differentiable* if its result changes with its arguments, and its value and gradient agree with the plain call and
  with finite differences;
- *not differentiable* if it works on traced values, and its result holds no floating-point numbers or stays the same
  under small changes: `floor`, `argsort`, `zeros`;
- *refused* if a gradient raises an error, or there is nothing to differentiate: text, files, random numbers, objects.
  What *has no rule* says so in a `MissingRuleError` or `LostDerivativeError`, with ways on.

Distributions of `scipy.stats` are counted with each of their methods. For comparison: so many of the names are found
in `jax.numpy` and `jax.scipy` of JAX 0.10.2 and among the methods of its arrays, with a derivative or without; and for
so many has Autograd 1.9.1 a derivative of its own, or a method. Both have functions of their own for them, which are
not NumPy's and SciPy's.
"""


def main() -> None:
    wanted = items()
    answers: dict[str, tuple[str, str]] = {}
    for group in dict.fromkeys(item.group for item in wanted):
        found = classify([item for item in wanted if item.group == group])
        print(f"{group}:", *Counter(kind for kind, _ in found.values()).items(), flush=True)
        answers |= found
    PAGE.write_text(page(wanted, answers), encoding="utf-8")


if __name__ == "__main__":
    main()
