"""What is said of functions that have no rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.ownership import named_module
from ..errors import MissingRuleError
from ..tape.operations import Site, user_site
from ..tape.show import name_of

# Functions that are called for what they do with the values.
SAVING = (np.save, np.savetxt, np.savez, np.savez_compressed)


def missing_rule(fn: Any, site: Site | None = None) -> MissingRuleError:
    """The error for a function that nobody wrote a rule for."""
    name, where = name_of(fn), str(site or user_site())
    module = named_module(fn)
    full = f"{module}.{name}" if module else name
    if fn in SAVING:
        return MissingRuleError(f"{where}: {full} was called with a traced value, whose derivative would be lost in "
                                f"a file. Save the value alone: {name}(..., yota_py.stop_gradient(x))")
    if not all(part.isidentifier() for part in full.split(".")):  # of np.frompyfunc, a lambda
        name = full = "f"
        where = f"{where}: f is {name_of(fn)}"
    return MissingRuleError(
        f"{where}: no rule for {full}, which was called with a traced value. Three ways on:\n"
        f"  1. write its derivative:    @yota_py.rrule({full})\n"
        f"                              def _(x, ...): return {name}(x, ...), lambda dy: (..., )\n"
        f"  2. if nothing flows back:   yota_py.nondiff({full}), or pass yota_py.stop_gradient(x)\n"
        f"  3. rewrite the line with functions that have rules (yota_py.primitives() lists them)."
    )
