"""Python's and NumPy's objects in machine code: reading their fields, calling them, and making a program's results.

The layout of ``PyArrayObject``, ``PyFloatObject`` and NumPy's float64 scalar is part of their C interface.
"""

from __future__ import annotations

from llvmlite import ir

from ...base.records import record
from ..maths.llvm import DOUBLE, I32, I64, NULL, PTR, VOID, Value, Writer, const

_HEAD = object.__basicsize__  # of every Python object: reference count and type
TYPE, VALUE = _HEAD - 8, _HEAD  # the latter of a float
ITEMS = _HEAD + 8  # of a tuple
DATA, NDIM, SHAPE, DESCRIPTOR, FLAGS = _HEAD, _HEAD + 8, _HEAD + 16, _HEAD + 40, _HEAD + 48  # of an array

# How a result is made, of an argument: the number in a word of the frame (as Python's or NumPy's), an output array, an
# object by its address; or by a call, with the frame's address and the number of the result.
NUMBER, SCALAR, OUTPUT, OBJECT, BUILT = range(5)


class PythonWriter(Writer):
    """Shorthands for Python's objects."""

    def field(self, value: Value, byte: int, kind: ir.Type) -> Value:
        """A field of an object."""
        return self.b.load(self.byte(value, const(byte)), typ=kind, align=1)

    def room(self, count: Value) -> Value:
        """As many local words. llvmlite 0.45 gives them a type that LLVM does not know: a typed pointer to pointers."""
        words = self.b.alloca(PTR, count)
        words.type = PTR
        return words

    def apply(self, callee: Value, args: Value, count: Value) -> Value:
        """A Python call with so many objects; NULL if it raises."""
        return self.call("PyObject_Vectorcall", PTR, callee, args, count, NULL)

    def release(self, value: Value) -> None:
        """One reference less."""
        self.call("Py_DecRef", VOID, value)

    def require(self, condition: Value, otherwise: ir.Block) -> None:
        """Go on only if it holds."""
        go_on = self.block("good")
        self.b.cbranch(condition, go_on, otherwise)
        self.b.position_at_end(go_on)

    def some(self, value: Value, otherwise: ir.Block) -> Value:
        """An object that must not be NULL."""
        self.require(self.b.icmp_unsigned("!=", value, NULL), otherwise)
        return value


@record()
class Activation:
    """A call of a program in machine code: its table and frame, the values given, room for its output arrays, so many
    of which are ``made``; and a stack of objects with its ``depth``, which the block ``failed`` releases."""

    program: Value
    frame: Value
    values: Value
    count: Value
    outputs: Value
    output_count: Value
    made: Value
    stack: Value
    depth: Value
    failed: ir.Block

    def push(self, w: PythonWriter, value: Value) -> None:
        """Put an object on the stack; one that is NULL ends the call."""
        w.some(value, self.failed)
        top = w.b.load(self.depth, typ=I64)
        w.b.store(value, w.at(self.stack, top))
        w.b.store(w.b.add(top, const(1)), self.depth)

    def apply(self, w: PythonWriter, callee: Value, count: Value) -> Value:
        """Call a function with the topmost objects, which are taken off the stack."""
        first = w.b.sub(w.b.load(self.depth, typ=I64), count)
        parts = w.at(self.stack, first)
        value = w.some(w.apply(callee, parts, count), self.failed)
        with w.loop(count) as k:
            w.release(w.word(parts, k, PTR))
        w.b.store(first, self.depth)
        return value


def emit_results(w: PythonWriter, call: Activation, recipe: Value, length: Value, build: Value, scalar: Value) -> None:
    """Follow a recipe; a tuple of the results is left on the stack. ``scalar`` is NumPy's class of floats."""
    b = w.b
    with w.loop(length) as i:
        record = w.at(recipe, b.shl(i, const(1)))
        argument = w.word(record, 1)
        blocks, push = [w.block(name) for name in ("number", "scalar", "output", "object", "built")], w.block("push")
        choice = b.switch(w.word(record, 0), call.failed)
        for code, block in enumerate(blocks):
            choice.add_case(const(code), block)
        b.position_at_end(push)
        value = b.phi(PTR)
        for code, block in enumerate(blocks):
            b.position_at_end(block)
            made = _emit_result(w, call, code, argument, build, scalar)
            value.add_incoming(made, b.block)
            b.branch(push)
        b.position_at_end(push)
        call.push(w, value)
    results = w.some(w.call("PyTuple_New", PTR, length), call.failed)
    with w.loop(length) as k:  # it takes over the references
        w.call("PyTuple_SetItem", I32, results, k, w.word(call.stack, k, PTR))
    b.store(const(0), call.depth)
    call.push(w, results)


def _emit_result(w: PythonWriter, call: Activation, code: int, argument: Value, build: Value, scalar: Value) -> Value:
    """The object that one instruction makes."""
    b = w.b
    if code == NUMBER:
        return w.call("PyFloat_FromDouble", PTR, w.word(call.frame, argument, DOUBLE))
    if code == SCALAR:
        value = w.some(w.call("PyType_GenericAlloc", PTR, scalar, const(0)), call.failed)
        b.store(w.word(call.frame, argument, DOUBLE), w.byte(value, const(VALUE)))
        return value
    if code == BUILT:
        call.push(w, w.call("PyLong_FromVoidPtr", PTR, call.frame))
        call.push(w, w.call("PyLong_FromLongLong", PTR, argument))
        return call.apply(w, build, const(2))
    value = w.word(call.outputs, argument, PTR) if code == OUTPUT else b.inttoptr(argument, PTR)
    w.call("Py_IncRef", VOID, value)
    return value
