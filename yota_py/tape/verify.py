"""A page-long check that a tape is well formed, run after every pass in the tests."""

from __future__ import annotations

from ..base.types import ArrayType, OpaqueType, StructType, TupleType, typeof
from ..errors import VerifyError
from .operations import Call, Constant, Guard, Input, Variable, operands, paths
from .tape import Tape


def verify(tape: Tape) -> Tape:
    """Returns the tape unchanged; raises ``VerifyError`` with the lines around the fault if it is not well formed.

    Each operation reads only variables above it, inputs come in the order of ``tape.leaves``, constants have the
    type they say, called variables are not arrays, and the results exist.
    """
    for var, op in tape:
        if not isinstance(op, Input | Constant | Call | Guard):
            _fail(tape, var, f"is no operation but {type(op).__name__}")
        for used in operands(op):
            if not 1 <= used.id < var.id:
                _fail(tape, var, f"reads {used}, which is not defined above it")
        if not isinstance(op.type, ArrayType | TupleType | StructType | OpaqueType):
            _fail(tape, var, f"has no type but {op.type!r}")
        if isinstance(op, Constant) and typeof(op.value) != op.type:
            _fail(tape, var, f"is a constant of type {typeof(op.value)} that says {op.type}")
        if isinstance(op, Call):
            if isinstance(op.fn, Variable):
                if isinstance(tape[op.fn].type, ArrayType):
                    _fail(tape, var, f"calls {op.fn}, an array")
            elif not callable(op.fn):
                _fail(tape, var, f"calls {op.fn!r}, which is no function")
    bound = [leaf for leaf in tape.leaves if isinstance(leaf, Variable)]
    if bound != tape.inputs[: len(bound)]:
        _fail(tape, None, f"its leaves {bound} are not its inputs {tape.inputs}")
    for _, var in paths(tape.results):
        if not 1 <= var.id <= len(tape):
            _fail(tape, None, f"returns {var}, which does not exist")
    return tape


def _fail(tape: Tape, var: Variable | None, fault: str) -> None:
    lines = tape.show("plain").splitlines()
    at = len(lines) - 1 if var is None else var.id
    around = "\n".join(("> " if i == at else "  ") + lines[i] for i in range(max(0, at - 3), min(len(lines), at + 4)))
    raise VerifyError(f"{var or 'tape'} {fault}:\n{around}")
