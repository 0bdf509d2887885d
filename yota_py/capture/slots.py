"""What a trace reads: how it is read again, and what users call it."""

from __future__ import annotations

from dataclasses import field

from ..base.records import record
from ..tape.operations import Site


@record()
class Slot:
    """Something that a trace has read, or knows: ``code`` reads it again, ``words`` are what users call it.

    ``site`` is where the user's code reads it; it is ``fixed`` if it is the same object at each call; ``is_own`` tells
    of the dict of an object's attributes.
    """

    code: str
    words: str = field(default="", compare=False)
    site: Site | None = field(default=None, compare=False)
    fixed: bool = field(default=False, compare=False)
    is_own: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.code

    def attribute(self, name: str) -> Slot:
        """An attribute of it."""
        return Slot(f"{self.code}.{name}", f"{self.words}.{name}", self.site)

    def own(self, reader: Slot | None = None) -> Slot:
        """The dict of its attributes, which users do not see; with a function that reads it where code of theirs would
        hear of it."""
        code = f"{self.code}.__dict__" if reader is None else f"{reader.code}({self.code})"
        return Slot(code, self.words, self.site, fixed=self.fixed, is_own=True)

    def item(self, key: Slot) -> Slot:
        """An item of it."""
        return Slot(f"{self.code}[{key.code}]", f"{self.words}[{key.words}]", self.site)

    def given_to(self, reader: Slot, words: str, *args: Slot) -> Slot:
        """What a function gives for it."""
        return Slot(f"{reader.code}({', '.join(x.code for x in (self, *args))})", words, self.site)


def literal(value: int | str) -> Slot:
    """A number or text as Python writes it."""
    return Slot(repr(value), repr(value), fixed=True)
