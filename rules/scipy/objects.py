"""Objects of SciPy's classes that are made of traced values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from yota_py.base.dispatch import shadow
from yota_py.base.signatures import signature_of
from yota_py.registry.patches import patch

Taking: TypeAlias = Callable[[Any, dict[str, Any]], None]


def made_of_traced(*classes: type) -> Callable[[Taking], Taking]:
    """Decorator for what objects of these classes take of the arguments that they are made of.

    SciPy makes an object of their values, which also checks them; then ``take(self, given)`` puts what is traced in the
    place of these. ``given`` holds all arguments by name.
    """

    def register(take: Taking) -> Taking:
        for cls in classes:
            patch(cls, "__init__", _making(cls.__init__, take))  # type: ignore[misc]
        return take

    return register


def _making(plain: Callable[..., None], take: Taking) -> Callable[..., None]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *shadow(args), **shadow(kwargs))
        call = signature_of(plain).bind(self, *args, **kwargs)
        call.apply_defaults()
        take(self, {name: x for name, x in call.arguments.items() if name != "self"})

    return init
