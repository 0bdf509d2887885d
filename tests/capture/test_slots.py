"""What a trace reads: how it prints as code, and in the user's words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from yota_py.capture.guards import Changed, Guards
from yota_py.capture.slots import Slot, literal


def test_slots_print_as_code_and_in_words() -> None:
    guards, model = Guards(), Slot("f", "model")
    own = guards.local(model.own())
    weight = guards.local(own.item(literal("w")), "model.w")
    first = weight.item(literal(0))
    assert (str(first), first.words) == ("v2[0]", "model.w[0]")
    assert (str(model.attribute("b")), model.attribute("b").words) == ("f.b", "model.b")
    size = first.given_to(guards.constant(len), "its length")
    assert (str(size), size.words) == ("k0(v2[0])", "its length")
    assert [line.text() for line in guards.lines] == ["v1 = f.__dict__", "v2 = v1['w']"]


def test_what_is_fixed_is_the_same_object_at_each_call() -> None:
    guards, owner = Guards(), SimpleNamespace()
    assert guards.constant(owner).fixed and guards.constant(owner).own().fixed
    assert not guards.constant(owner).attribute("x").fixed and not Slot("f").own().fixed


def test_chains_may_be_long() -> None:
    guards, slot = Guards(), Slot("f", "f")
    for _ in range(5000):
        slot = guards.local(slot.attribute("next"), "a link")
    guards.captured.append(slot)
    chain: Any = 1.0
    for _ in range(5000):
        chain = SimpleNamespace(next=chain)
    assert guards.function()(chain) == (1.0,)
    while not isinstance(chain, float):  # link by link: Python takes them apart recursively
        chain = chain.next


def test_a_guard_tells_what_has_changed() -> None:
    guards, slot = Guards(), Slot("f", "limit")
    read = guards.local(slot.attribute("size"))
    guards.captured.append(read)
    guards.require_equal(read, 3, kind=int)
    guard = guards.function()
    assert guard(SimpleNamespace(size=3)) == (3,)
    answer = guard(SimpleNamespace(size=4))
    assert isinstance(answer, Changed) and answer.numbers() == [("limit.size", int)]
    assert str(answer) == "limit.size was 3, and is 4"
    assert str(guard(SimpleNamespace())).startswith("limit.size cannot be read any more (AttributeError: ")
    assert guards.changed_numbers(SimpleNamespace(size=5), (), {}, None) == [("limit.size", int)]
