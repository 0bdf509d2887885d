"""The guarded cache: which compiled program serves a call.

A cache belongs to a code object. Its programs are found by the arguments' structure, types and static values, by guards
on everything else that a trace has read (``captures.py``), and by the decisions taken on traced values
(``variants.py``). What is not provably the same next time is not cached but traced afresh.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from importlib import import_module
from math import inf
from time import perf_counter
from types import CodeType, MappingProxyType
from typing import Any

from ..base import locks
from ..base.containers import attribute_of
from ..base.dispatch import mode_of
from ..base.generators import Draws
from ..base.refusal import MISFIT, Due, Misfit, Refusal
from ..base.settings import config, reference
from ..base.shelf import Shelf
from ..base.unwinding import Holding, Uncollected, unwinding
from ..capture.guards import Changed
from ..errors import YotaError
from ..registry.registry import listeners, load_pending
from . import notices
from .arguments import key_of
from .background import submit
from .making import WAIT_SECONDS, prepared, recorded
from .modes import Mode, Request, TracedCall
from .policy import MUCH_MEMORY, Account, Accounts
from .variants import Signature, Variant
from .varying import Varying

MAX_SIGNATURES, MAX_FUNCTIONS = 64, 2048  # per function; in all
BEYOND_TRACE = 3  # times that of its trace, an interpreted gradient takes

_programs: Shelf[Signature] = Shelf(  # of all functions
    lambda signature: signature.nbytes, lambda: config.cache_bytes, lambda signature: signature.drop()
)

NOBODY: Mapping[Signature, Any] = MappingProxyType({})
caches: dict[Hashable, FunctionCache] = {}
_gone: list[FunctionCache] = []  # whose functions have gone
_every: weakref.WeakSet[FunctionCache] = weakref.WeakSet()  # also those that only a function knows


def known_cache(key: Hashable, owner: Any, mode: Mode) -> FunctionCache:
    """The cache under a key, made if there is none; the oldest of too many gives way."""
    cache = caches.get(key)
    if cache is None:
        while len(caches) >= MAX_FUNCTIONS:
            if (oldest := caches.pop(next(iter(caches)), None)) is not None:
                oldest.clear()
        while _gone:
            _gone.pop().clear()
        cache = caches.setdefault(key, FunctionCache(_reference(owner, key), mode))
    return cache


def _reference(owner: Any, key: Hashable) -> Callable[[], Any]:
    """How a cache finds its function. Code is kept, so that its id stays its own; an object with all that it holds (a
    model, a ``functools.partial`` of arrays) is not, and takes its cache along when it goes."""

    def forget(reference: object) -> None:
        if (cache := caches.pop(key, None)) is not None:
            _gone.append(cache)  # cleared later: locks may be held by whom the garbage collector interrupts

    try:
        return (lambda: owner) if isinstance(owner, CodeType) else weakref.ref(owner, forget)
    except TypeError:
        return lambda: owner


def cache_for(f: Callable[..., Any], mode: Mode) -> FunctionCache:
    """The cache of a function for one purpose, which functions of the same code share, also if they are wrapped by the
    same transforms."""
    wrappers = []
    while (made := mode_of(f)) is not None:
        wrappers.append((id(f.__code__), made))
        f = f.__wrapped__  # type: ignore[attr-defined]
    owner = attribute_of(f, "__code__", f)
    return known_cache((id(owner), mode, *wrappers), owner, mode)


def caches_of(owner: Any) -> list[FunctionCache]:
    """All caches of one function's code."""
    return [cache for cache in list(caches.values()) if cache.owner is owner]


def clear_caches() -> None:
    """Forget everything about all functions."""
    for cache in list(_every):
        cache.clear()
    caches.clear()


listeners.append(clear_caches)


class FunctionCache:
    """What is known of one function's code."""

    def __init__(self, owner: Callable[[], Any], mode: Mode) -> None:
        _every.add(self)
        self._owner = owner
        self.mode = mode
        self.signatures: dict[Hashable, list[Signature]] = {}
        self.varying = Varying(objects=mode.effects)
        self.problems, self.misses, self.last_miss = list[str](), 0, ""  # why the last trace was not compiled
        self._recent: Signature | None = None
        self._previous: Signature | None = None  # the one that served before another one did
        self.accounts = Accounts()
        self._shelf: Shelf[Signature] = Shelf(lambda signature: 1, lambda: MAX_SIGNATURES, lambda s: s.drop())
        self._cleared = 0  # so many times
        self._said = self.stores = False  # it stores: the function has effects that its programs have not
        self._repeatable = False  # whether it is known to have done nothing but compute, draw and print
        self.objects = False  # whether it has been given objects in which derivatives are wanted
        self.distrusted = ""  # why its programs are used no more

    @property
    def owner(self) -> Any:
        """The function's code, or another callable object."""
        return self._owner()

    def __call__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any) -> Any:
        """The result, from a program if one fits."""
        recent = self._recent
        if recent is None or config.special:
            return self._serve(Request(f, args, kwargs, seed, objects=self.mode.effects))
        result = recent.enter(f, args, kwargs, seed)
        if not issubclass(type(result), Refusal):
            return result
        signature, result = recent, recent.go_on(result, f, args, kwargs, seed)
        asked = {recent: result}
        if type(result) in (Misfit, Changed) and (previous := self._previous) is not None:
            signature, result = previous, previous.run(f, args, kwargs, seed)
            asked[previous] = result
        if issubclass(type(result), Refusal):
            return self._serve(Request(f, args, kwargs, seed, objects=self.mode.effects), asked)
        self._prefer(signature)
        return result

    def _serve(self, call: Request, asked: Mapping[Signature, Any] = NOBODY) -> Any:
        """The result of a call that the signatures used last have refused, or that they want to be audited."""
        if config.compile == "never" or reference.active:
            return self.mode.interpret(call)
        if config.compile == "auto" and not self.signatures and self.accounts.resting():
            self.misses += 1
            return self.mode.interpret(call)
        if self.distrusted:
            self.misses, self.last_miss = self.misses + 1, self.distrusted
            return self.mode.interpret(call)
        return self._select(call, asked)

    @unwinding
    def _select(self, call: Request, asked: Mapping[Signature, Any]) -> Any:
        """The result of another program, or of a trace."""
        if call.endless:
            return self.mode.interpret(call)
        key = self._key(call)
        result = self._find(key, call, asked)
        if not issubclass(type(result), Refusal):
            return result
        if result.good:  # an exception as NumPy raises it, at the user's line, with the effects up to there
            self.misses, self.last_miss = self.misses + 1, str(result)
            return self.mode.interpret(call)
        if config.compile != "always":
            return self._trace(key, call, result)
        with Holding(locks.compiling, WAIT_SECONDS):
            late = self._find(key, call)  # compiled while this call waited
            return self._trace(key, call, result) if issubclass(type(late), Refusal) else late

    def _find(self, key: Hashable, call: Request, asked: Mapping[Signature, Any] = NOBODY) -> Any:
        """The result of a program that fits; otherwise the last refusal; those ``asked`` already gave one."""
        refusal: Any = None
        for signature in dict.fromkeys([*asked, *self.signatures.get(key, ())]):
            if config.audits_all:
                signature.all_due()
            result = self._audited(signature, call, asked[signature] if signature in asked else signature.run(*call))
            if not issubclass(type(result), Refusal):
                self._prefer(signature)
                return result
            if refusal is None or signature not in asked:
                refusal = signature.explained(result, *call) if type(result) is Misfit else result
        return refusal or MISFIT

    def _audited(self, signature: Signature, call: Request, result: Any) -> Any:
        """What a signature has answered; that of an audit, if a program is due for one."""
        if isinstance(result, Due):
            audit = import_module(".audit", __package__)  # which calls that are not compiled do without
            result = audit.audited(self.mode, signature, call, result)
            if isinstance(result, audit.Finding):
                if result.fault:
                    self._distrust(call, result.fault)
                return result.answer()
        return result

    def _distrust(self, call: Request, fault: str) -> None:
        """Never again compile what was compiled wrongly; says so."""
        self.clear()
        self.distrusted = f"its program was wrong: {fault}"
        notices.wrong(self.mode, call, fault)

    def _prefer(self, signature: Signature) -> None:
        """Try this signature first from now on, and then the one that was first so far; unless an audit forbids it."""
        if signature is not self._recent and not self.distrusted:
            self._recent, self._previous = signature, self._recent

    def _key(self, call: Request) -> Hashable:
        """What calls that may share a program have in common."""
        return key_of(call.leaves, call.spec, self.varying.positions(call.spec))

    # -- misses

    def _trace(self, key: Hashable, call: Request, refusal: Refusal, *, force: bool = False) -> Any:
        """The result of a call that no program fits; compiled for later calls if it is time."""
        account = self.accounts.get(key)
        if account is not None and (job := account.job) is not None and (force or not config.later or job.wait()):
            self._settle(account, call)
            if not issubclass(type(result := self._find(key, call)), Refusal):
                return result
        self._note(key, call, refusal)
        key = self._key(call)  # which depends on what varies
        account = self.accounts.get(key) or self._open(key, call)
        account.idle = sum(signature.idle for signature in self.signatures.get(key, ()))
        start = perf_counter()
        if not (force or account.due) and (found := self.mode.at_once(call)) is not None:
            account.computed(perf_counter() - start, found[1])
            if self.mode.effects or not account.due:
                return found[0]
        if load_pending():  # it takes a while, once in a process, and is no reason to compile
            start = perf_counter()
        with Draws() as draws:
            recording, self._repeatable = recorded(self.mode, self.varying, call, draws, repeatable=self._repeatable)
        self.stores |= recording.stores
        # What is large is computed by a program at once, where that costs less time or much less memory; loops as well.
        dear = recording.nbytes > MUCH_MEMORY or (recording.is_long and not self.mode.effects)
        at_once = (recording.nbytes > 0 or dear) and (
            force or account.saves(inf if dear else BEYOND_TRACE * (perf_counter() - start))
        )
        if not at_once:
            recording.result()
        account.interpreted(perf_counter() - start, recording)
        if force or at_once or account.due:
            with Holding(locks.compiling, WAIT_SECONDS if force else 0.0) as alone:
                if alone:
                    later = config.later and not (force or at_once or self.mode.effects)
                    keep = partial(self._keep, key, call, refusal, recording, account, later)
                    self.problems = self._tried(keep, call, recording.result)
                    self._repeatable = self._repeatable or not self.problems
                    if at_once and not self.problems:
                        draws.take_back()
                        if not issubclass(type(result := self._find(key, call)), Refusal):
                            return result
                        draws.repeat()
                    recording.result()  # raises what there is to be raised
                    if self.problems and not self.varying.will_take_others(call.spec, recording):
                        account.failed()
                        if not (force or self.stores):
                            self._say(call)
            if (job := account.job) is not None and job.wait():
                self._settle(account, call)
        return recording.result()

    def _open(self, key: Hashable, call: Request) -> Account:
        """A new account; said once, if there are more and more of them that never come to a program."""
        account = self.accounts.open(key)
        if not self.signatures and config.compile == "auto" and self.accounts.too_many() and self.accounts.cost_much:
            differ = "its calls differ in shapes, in lengths of lists or in arguments like strings"
            rare = "and none has come often enough (numbers and arrays may have any values)"
            self.problems = [f"{differ}, in {len(self.accounts)} ways so far, {rare}"]
            self._say(call)
        return account

    def _note(self, key: Hashable, call: Request, refusal: Refusal) -> None:
        """Remember why a call was a miss; a number that has changed becomes an input of the next program."""
        self.misses += 1
        if key not in self.signatures:
            self.varying.given(call.leaves, call.spec)
            other = self._recent.other_argument(call.leaves, call.spec) if self._recent is not None else None
            self.last_miss = other or "no call with arguments of these types and static values has been compiled"
            return
        self.last_miss = str(refusal)
        numbers = refusal.numbers() if isinstance(refusal, Changed) else []
        self.varying.changed([*numbers, *self.varying.held(self._recent, call.spec, *call)])

    def _tried(self, keep: Callable[[], list[str]], call: Request, result: Callable[[], Any]) -> list[str]:
        """What ``keep`` returns. It never breaks a call: where the compiler fails, the function is interpreted."""
        try:
            return keep()
        except YotaError as reason:
            return [str(reason)]
        except Exception as error:  # any: the result of the call is known, or
            result()  # raises it too
            where = f" ({'; '.join(error.__notes__)})" if hasattr(error, "__notes__") else ""
            self.problems = [f"its compilation has failed with {type(error).__name__}: {error}{where}"]
            self._say(call, notices.failed)
            return self.problems

    @unwinding
    def _keep(
        self, key: Hashable, call: Request, refusal: Refusal, recording: TracedCall, account: Account, later: bool
    ) -> list[str]:
        """Compile a traced call, perhaps ``later``; returns the reasons why other calls cannot rely on it."""
        made = prepared(self.mode, call, refusal, recording, self.varying, self.signatures.get(key, ()))
        if isinstance(made, list):
            return made
        finish = partial(self._finish, key, call, recording, account, *made, self._cleared)
        if not later:
            with Uncollected():  # it makes many objects and no garbage
                return finish()
        account.job = submit(finish)
        return []

    def _finish(
        self, key: Hashable, call: Request, recording: TracedCall, account: Account, signature: Signature,
        variant: Variant, cleared: int,
    ) -> list[str]:  # fmt: skip
        """Compile what is prepared, and keep it, unless all has been forgotten by then."""
        assert recording.source is not None and recording.compile is not None
        with account.compiling(n := len(recording.source.tape)), notices.progress(call, n):
            variant.compile(partial(recording.compile, signature.structure))
        if cleared != self._cleared:
            return []
        signature.add(variant)
        if signature in (known := self.signatures.get(key, ())):
            _programs.changed(signature)
        else:
            signature.drop = partial(self._drop, key, signature)
            self.signatures[key] = [*known, signature]
            self._shelf.add(signature)
            _programs.add(signature)
        self._prefer(signature)
        return [variant.problem] if variant.problem else []

    def _settle(self, account: Account, call: Request) -> None:
        """A program was compiled while calls went on; if there is none, it is said why."""
        job, account.job = account.job, None
        if job is None:
            return  # another thread has done it
        job.give_up()
        self.problems = self._tried(job.result, call, lambda: None)
        if self.problems and not self.varying.give_up(whole=True):
            account.failed()
            self._say(call)

    @unwinding
    def compile(self, call: Request) -> None:
        """Compile for these arguments; raises ``CompileError`` if other calls could not rely on the program."""
        with Holding(locks.compiling):
            if self.distrusted:
                self.problems = [self.distrusted]
            else:
                key = self._key(call)
                result = self._find(key, call)
                if not issubclass(type(result), Refusal):
                    return
                self._trace(key, call, result, force=True)
            if self.problems:
                raise notices.impossible(call, self.problems)

    def _say(self, call: Request, notice: Callable[[Mode, Request, str], None] = notices.uncached) -> None:
        """Once: a function that would have been compiled could not be."""
        if not self._said:
            self._said = True
            notice(self.mode, call, self.problems[0])

    # -- giving way

    def _drop(self, key: Hashable, signature: Signature) -> None:
        """Forget a signature."""
        rest = [known for known in self.signatures.get(key, ()) if known is not signature]
        if rest:
            self.signatures[key] = rest
        else:
            self.signatures.pop(key, None)
        self._recent = None if self._recent is signature else self._recent
        self._previous = None if self._previous is signature else self._previous
        self._shelf.remove(signature)
        _programs.remove(signature)

    def clear(self) -> None:
        """Forget everything."""
        self._cleared += 1
        with Holding(locks.compiling, WAIT_SECONDS):
            for signature in [signature for known in self.signatures.values() for signature in known]:
                signature.drop()
        self.distrusted, self.stores = "", False
