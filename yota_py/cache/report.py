"""What is cached for a function, what each program depends on, and why the last call was a miss: ``explain``."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any

from ..base.containers import attribute_of
from ..base.impure import Impure
from ..base.records import record
from ..base.settings import config
from ..tape.operations import Site, site_of, user_site
from ..tape.show import name_of
from .functions import FunctionCache, caches_of
from .storing import cache_with_effects
from .variants import Signature


@record()
class Entry:
    """Programs for arguments of the same types, with everything else that the function reads the same.

    ``arguments`` and ``captured`` are read anew at each call; ``guards`` are what has to be as it was; ``paths`` is the
    number of ways through the function's branches that are compiled, ``decisions`` where they part; ``python_steps``
    are operations that run in NumPy because no kernel covers them. ``calls`` were served, and ``audits`` of them were
    interpreted as well; ``nbytes`` are kept. ``impure`` are draws of random numbers, clocks and prints, which run again
    at each call.
    """

    arguments: tuple[str, ...]
    captured: tuple[str, ...]
    guards: tuple[str, ...]
    decisions: tuple[str, ...]
    paths: int
    python_steps: tuple[str, ...]
    calls: int
    nbytes: int
    audits: int
    impure: tuple[str, ...] = ()

    def __str__(self) -> str:
        kept = f"{self.nbytes / 1e6:.1f} MB" if self.nbytes >= 1e5 else f"{self.nbytes / 1e3:.1f} kB"
        rows = [
            ("reads anew", self.captured),
            ("relies on", self.guards),
            ("decides", (*self.decisions, *([f"{_count(self.paths, 'path')} compiled"] if self.decisions else []))),
            ("in NumPy", self.python_steps),
            ("runs again", self.impure),
        ]
        served = f"{_count(self.calls, 'call')}, {self.audits} audited"
        lines = [f"{', '.join(self.arguments) or 'no arguments'}: {served}, {kept}"]
        for title, items in rows:
            lines += [f"  {title if i == 0 else '':<12}{item}" for i, item in enumerate(items)]
        return "\n".join(lines)


@record()
class Explanation:
    """What is cached of one function for one purpose (``grad``, ``value_and_grad``, ``jit``).

    ``calls`` ran compiled code, ``misses`` did not; ``last_miss`` is the reason of the last one in words. ``problems``
    are the reasons why the function could not be compiled when it was tried last; ``spent`` says how much time has gone
    into calls that are not compiled yet.
    """

    name: str
    purpose: str
    entries: tuple[Entry, ...]
    calls: int
    misses: int
    last_miss: str
    problems: tuple[str, ...]
    spent: str = ""

    def __str__(self) -> str:
        served = f"{_count(self.calls, 'call')} ran compiled code, {self.misses} did not"
        lines = [f"{self.name} by {self.purpose}: {served}"]
        if self.last_miss:
            lines.append(f"  the last that did not: {self.last_miss}")
        lines += [f"  cannot be cached: {problem}" for problem in self.problems]
        lines += [f"  {self.spent}"] if self.spent else []
        for entry in self.entries:
            lines += [f"  {line}" for line in str(entry).splitlines()]
        return "\n".join(lines)


class Explanations(tuple[Explanation, ...]):
    """One ``Explanation`` per purpose; prints as text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "nothing is known: the function was not called yet"


def explain(f: Callable[..., Any]) -> Explanations:
    """What is cached for a function, or for what ``value_and_grad``, ``gradient`` or ``jit`` have made of one.

    ``print`` it. It is a tuple of one ``Explanation`` per purpose, with numbers of calls, entries, guards with the
    lines that read them, and the reason of the last miss. Functions made from the same code (closures, lambdas in a
    loop) share what is cached. Raises ``TypeError`` for what is not callable.

    >>> from yota_py import grad
    >>> def f(x):
    ...     return x * x
    >>> explain(f)
    nothing is known: the function was not called yet
    >>> grad.compile(f, 3.0)
    >>> explain(f)[0].entries[0].arguments
    ('x float64',)
    """
    if not callable(f):
        raise TypeError(f"{user_site()}: explain wants a function; got {type(f).__name__}")
    own = attribute_of(f, "__yota_cache__")
    if own is not None:
        also = cache_with_effects(own, attribute_of(f, "__wrapped__", f))
        caches = [own] if also is None else [also, own]
    else:
        caches = caches_of(attribute_of(f, "__code__", f))
    return Explanations(_explain(cache) for cache in caches if cache.misses or cache.signatures or cache.distrusted)


def _explain(cache: FunctionCache) -> Explanation:
    code = cache.owner
    name = f"{code.co_qualname} ({site_of(code)})" if isinstance(code, CodeType) else name_of(code)
    problems = [] if cache.stores else cache.problems  # of the gradient alone, which nobody asks for any more
    entries = tuple(_entry(s) for signatures in list(cache.signatures.values()) for s in signatures)
    return Explanation(
        name, cache.mode.purpose, entries, sum(entry.calls for entry in entries), cache.misses, cache.last_miss,
        (cache.distrusted,) if cache.distrusted else tuple(problems), _spent(cache),
    )  # fmt: skip


def _spent(cache: FunctionCache) -> str:
    """How far the types of arguments have come that are to be compiled next."""
    if any(account.job is not None and not account.job.is_done for account in list(cache.accounts.values())):
        return "calls are interpreted while a program is compiled"
    accounts = [account for key, account in list(cache.accounts.items()) if key not in cache.signatures]
    waiting = [account for account in accounts if account.balance > 0 and not account.pause]
    if config.compile != "auto" or not waiting:
        return ""
    most = max(waiting, key=lambda account: account.balance)
    return f"interpreting has taken {most.balance:.2g} s; at {most.price:.2g} s a program is made"


def _entry(signature: Signature) -> Entry:
    guards, variants = signature.guards, signature.variants
    captured = [
        f"{slot.words} {t}{_at(slot.site)}"
        for slot, t in zip(guards.captured, signature.captured, strict=True)
    ]
    told = [line for line in guards.lines if line.was and line.subject.site and not line.minor]
    conditions = [f"{line.subject.words}: {line.was}{_at(line.subject.site)}" for line in told]
    decisions = [f"{_source(guard.site)} ({guard.site})" for variant in variants
                 for number, guard in enumerate(variant.guards) if number not in variant.free]  # fmt: skip
    steps = []
    for variant in variants:
        program = variant.program
        for op in program.python_steps if program is not None else ():
            if not isinstance(op.fn, Impure):
                steps.append(f"{name_of(op.fn)}{_at(op.site)}")
    impure = [f"{name_of(op.fn)}{_at(op.site)}" for variant in variants for op in variant.impure]
    return Entry(
        signature.arguments, tuple(captured), _unique(conditions), _unique(decisions), len(variants),
        _unique(steps), signature.calls, signature.nbytes, signature.audits, _unique(impure),
    )  # fmt: skip


def _source(site: Site | None) -> str:
    """The user's line."""
    return (linecache.getline(site.filename, site.line).strip() if site is not None else "") or "a decision"


def _at(site: Site | None) -> str:
    return f" ({site})" if site is not None else ""


def _unique(lines: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
