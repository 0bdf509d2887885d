"""What is written in LLVM again and again: types, words in memory, local variables, loops, declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias

from llvmlite import ir

Value: TypeAlias = Any  # an ir.Value; llvmlite comes without types



class Unsigned(ir.IntType):  # type: ignore[misc]
    """Integers without a sign. LLVM writes them as all others, and leaves the sign to the instructions; so it is told
    apart here, which of them to write."""

    _instance_cache: ClassVar[dict[int, Unsigned]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unsigned) and self.width == other.width

    __hash__ = ir.IntType.__hash__


class Half(ir.IntType):  # type: ignore[misc]
    """Floats of half precision, as the integers of their bits: nothing computes with them but conversions, for which
    LLVM would call functions that not every machine has."""

    _instance_cache: ClassVar[dict[int, Half]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Half)

    __hash__ = ir.IntType.__hash__


I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
U8, U16, U32, U64 = (Unsigned(bits) for bits in (8, 16, 32, 64))
HALF = Half(16)
FLOAT, DOUBLE, VOID, PTR = ir.FloatType(), ir.DoubleType(), ir.VoidType(), ir.PointerType()
NULL = ir.Constant(PTR, None)
ELEMENTS: dict[str, ir.Type] = {
    "float64": DOUBLE, "float32": FLOAT, "float16": HALF, "int64": I64, "int32": I32, "int16": I16, "int8": I8,
    "uint64": U64, "uint32": U32, "uint16": U16, "uint8": U8, "bool": I1,
}  # fmt: skip


def const(n: int) -> ir.Constant:
    """A word."""
    return ir.Constant(I64, n)


def declared(module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
    """A function of this name, which the module may have declared already."""
    known = module.globals.get(name)
    return known or ir.Function(module, ir.FunctionType(result, arguments), name)


def offered(module: str, function: str) -> str:
    """The name by which the linker finds a function in C that a module of SciPy offers to Cython."""
    return f"{module}:{function}"


class Writer:
    """Writes a new function: a few shorthands over the builder ``b``."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    def block(self, name: str) -> ir.Block:
        """A block to branch to."""
        return self.function.append_basic_block(name)

    def byte(self, pointer: Value, offset: Value) -> Value:
        """The place so many bytes behind another."""
        return self.b.gep(pointer, [offset], source_etype=I8)

    def at(self, pointer: Value, index: Value | int) -> Value:
        """The place of a word."""
        return self.b.gep(pointer, [const(index) if isinstance(index, int) else index], source_etype=I64)

    def word(self, pointer: Value, index: Value | int, kind: ir.Type = I64) -> Value:
        """A word, or what stands in its place."""
        return self.b.load(self.at(pointer, index), typ=kind)

    def variable(self, start: Value) -> Value:
        """The place of a local variable; made in the entry block, so that LLVM keeps it in a register."""
        with self.b.goto_entry_block():
            place = self.b.alloca(start.type)
        self.b.store(start, place)
        return place

    def call(self, name: str, result: ir.Type, *args: Value) -> Value:
        """A function that the linker knows, or LLVM."""
        return self.b.call(declared(self.b.module, name, result, [a.type for a in args]), args)

    @contextmanager
    def repeated(self, condition: Callable[[], Value]) -> Iterator[None]:
        """``while condition():``"""
        head, body, done = self.block("head"), self.block("body"), self.block("done")
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(condition(), body, done)
        self.b.position_at_end(body)
        yield
        self.b.branch(head)
        self.b.position_at_end(done)

    @contextmanager
    def loop(
        self, stop: Value, step: int = 1, start: Value | None = None, also: Callable[[], Value] | None = None
    ) -> Iterator[Value]:
        """``for i in range(start, stop, step):``, as long as the condition ``also`` holds."""
        before = self.b.block
        i: Value = None

        def below() -> Value:
            nonlocal i
            i = self.b.phi(I64)
            i.add_incoming(start or const(0), before)
            below = self.b.icmp_signed("<", i, stop)
            return below if also is None else self.b.and_(below, also())

        with self.repeated(below):
            yield i
            i.add_incoming(self.b.add(i, const(step)), self.b.block)
