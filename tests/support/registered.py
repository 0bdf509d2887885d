"""Rules for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from yota_py.registry import registry


@contextmanager
def own_rules() -> Iterator[None]:
    """A block after which all is known of functions that was known before, and no more."""
    registry.load_pending()  # for good
    tables: list[dict[Any, Any]] = [
        registry.entries, registry.methods, registry.properties, registry.readings, registry.setters,
        registry.ufunc_methods,
    ]  # fmt: skip
    kept = [dict(table) for table in tables]
    known = {id(entry): replace(entry, cases=[*entry.cases]) for entry in registry.entries.values()}
    try:
        yield
    finally:
        for table, before in zip(tables, kept, strict=True):
            table.clear()
            table.update(before)
        for entry in registry.entries.values():
            for field in fields(entry):
                setattr(entry, field.name, getattr(known[id(entry)], field.name))
        for forget in registry.listeners:
            forget()
