"""Machine code on disk: another process finds it, and nothing that is wrong with it is seen by a user."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import yota_py
from yota_py import config, grad
from yota_py.base.settings import Config
from yota_py.engine.kernels import disk, store
from yota_py.engine.kernels.ir import KernelSpec, Node, Operand, Output
from yota_py.engine.maths.builder import VecMath
from yota_py.registry import kernels
from yota_py.registry.kernels import named, text_of

SOURCE = """
    import sys
    import numpy as np
    import scipy.special
    from yota_py import config, value_and_grad
    from yota_py.engine.kernels import codegen
    config.compile = "always"
    W = np.linspace(-1, 1, 12).reshape(3, 4)

    def f(x):
        return np.sum(np.tanh(W @ x) * scipy.special.gammaln(x[:3])) + np.linalg.slogdet(x * np.eye(4))[1]

    value, gradient = value_and_grad(f)(np.arange(1.0, 5.0))
    print(repr(float(value)), gradient.tolist(), bool(codegen._COMPILED), sep="|")
"""


def in_process(directory: Path | str, **environment: str) -> tuple[str, bool]:
    """What a process finds, and whether it has had to compile."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SOURCE)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "YOTA_CACHE_DIR": str(directory), **environment},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    *found, compiled = run.stdout.strip().split("|")
    return "|".join(found), compiled == "True"


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("code-*/*.code"))


def index(directory: Path) -> Path:
    return next(directory.glob("code-*/index"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A directory that one process has filled, and what that found."""
    directory = tmp_path_factory.mktemp("kept") / "yota_py"
    found, compiled = in_process(directory)
    assert compiled
    return directory, found


@pytest.fixture
def copied(filled: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(filled[0], tmp_path / "copy"))


def test_another_process_compiles_nothing(filled: tuple[Path, str]) -> None:
    directory, found = filled
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert len(before) == 3  # the kernels, the driver, the index
    assert in_process(directory) == (found, False)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_nobody_else_may_read_it(filled: tuple[Path, str]) -> None:
    for path in (filled[0], *filled[0].rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def spoil_file(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def spoil(directory: Path) -> None:
        for path in files(directory):
            path.write_bytes(change(path.read_bytes()))

    return spoil


def spoil_index(change: Callable[[str], str]) -> Callable[[Path], None]:
    def spoil(directory: Path) -> None:
        index(directory).write_text(change(index(directory).read_text()))

    return spoil


def exchange(directory: Path) -> None:
    """Two files, each under the name of the other."""
    first, second = files(directory)
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])


def misdirect(text: str) -> str:
    """Each function is said to be in the other file."""
    names = sorted({line.split()[1] for line in text.split("\n") if line})
    other = dict(zip(names, reversed(names), strict=True))
    return "".join(f"{key} {other[name]}\n" for key, name in (line.split() for line in text.split("\n") if line))


def widen(directory: Path) -> None:
    for path in files(directory):
        path.chmod(0o666)


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_file(lambda data: data[: len(data) // 2]),
        spoil_file(lambda data: b""),
        spoil_file(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
        spoil_file(lambda data: bytes([data[0] ^ 1]) + data[1:]),
        spoil_file(lambda data: b"\x00" * len(data)),
        spoil_index(lambda text: ""),
        spoil_index(lambda text: "\udcff\x00 nonsense\n".encode("utf-8", "replace").decode() * 9),
        spoil_index(lambda text: text.replace("a", "b")),
        spoil_index(misdirect),
        exchange,
        widen,
        lambda directory: [path.unlink() for path in files(directory)],
        lambda directory: index(directory).chmod(0o622),
        lambda directory: index(directory).parent.chmod(0o777),
        lambda directory: directory.chmod(0o772),
        lambda directory: [(path.unlink(), path.mkdir()) for path in [index(directory)]],
        lambda directory: [(path.unlink(), os.mkfifo(path)) for path in [index(directory)]],
        lambda directory: [(path.unlink(), os.mkfifo(path)) for path in files(directory)],
    ],
)
def test_what_is_not_as_it_was_written_is_compiled(
    spoil: Callable[[Path], Any], copied: Path, filled: tuple[Path, str]
) -> None:
    spoil(copied)
    assert in_process(copied) == (filled[1], True)


def test_and_is_mended(copied: Path, filled: tuple[Path, str]) -> None:
    for path in files(copied):
        path.write_bytes(b"nothing")
    index(copied).write_text(index(copied).read_text()[:-9])  # a line that is not whole
    assert in_process(copied) == (filled[1], True)
    assert in_process(copied) == (filled[1], False)


def test_another_compiler_or_processor_has_other_code(copied: Path, filled: tuple[Path, str]) -> None:
    assert in_process(copied, NUMBA_CPU_NAME="generic")[1]
    assert len(list(copied.glob("code-*"))) == 2
    assert in_process(copied) == (filled[1], False)


def test_without_a_directory(tmp_path: Path, filled: tuple[Path, str]) -> None:
    (tmp_path / "file").write_text("")
    for directory in ("", tmp_path / "file", tmp_path / "file" / "below", "/proc/nowhere"):
        assert in_process(directory) == (filled[1], True)
    assert in_process(tmp_path / "deep" / "er") == (filled[1], True)
    assert in_process(tmp_path / "deep" / "er") == (filled[1], False)


def test_many_processes_at_once(tmp_path: Path, filled: tuple[Path, str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert {found for found, _ in pool.map(in_process, [tmp_path] * 4)} == {filled[1]}
    assert in_process(tmp_path) == (filled[1], False)
    assert not list(tmp_path.rglob("new-*"))


# ------------------------------------------------------------------------------------------------ in this process


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of its own."""
    was = config._cache_dir
    config.cache_dir = tmp_path / "kept"
    forget(monkeypatch)
    yield tmp_path / "kept"
    config._cache_dir = was


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(store, "compiled", {})
    monkeypatch.setattr(disk, "_loaded", {})


def doubled(emit: str = "", depth: int = 1) -> KernelSpec:
    """A kernel that writes a function of one number ``depth`` times over."""
    nodes = tuple(Node(emit, (k,), "float64") for k in range(depth))
    return KernelSpec(0, False, (Operand("float64", "zero"),), nodes, (Output(depth, "float64", "zero"),))


def run(address: int, x: float) -> float:
    frame = np.array([0, 0, x, 0.0]).view(np.int64)
    frame[0] = frame.ctypes.data
    words = np.array([0, 16, 0, 24], np.int64)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
    kernel(frame.ctypes.data, words.ctypes.data, 0, 0)
    return float(frame.view(np.float64)[3])


def test_kernels_are_found_one_by_one(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [doubled("exp"), doubled("sin"), doubled("tanh")]
    store.addresses(specs)
    forget(monkeypatch)
    monkeypatch.setattr(store, "compile_module", None)  # it would raise TypeError
    for spec, function in ((specs[2], np.tanh), (specs[0], np.exp)):
        assert_allclose(run(store.addresses([spec])[spec], 0.5), function(0.5))
    monkeypatch.undo()
    config.cache_dir = kept
    forget(monkeypatch)
    more = [specs[1], doubled("cos")]
    code = store.addresses(more)
    assert_allclose([run(code[spec], 0.5) for spec in more], [np.sin(0.5), np.cos(0.5)])
    assert len(files(kept)) == 2


@named
def _thrice(k: Any, x: Any) -> Any:
    return k.add(k.add(x, x), x)


def test_a_users_kernel_is_not_kept(kept: Path) -> None:
    """The next process may have another function of this name."""
    assert text_of(_thrice) is None
    spec = doubled(_thrice)
    assert run(store.addresses([spec])[spec], 2.0) == 6.0
    assert not files(kept)
    both = [doubled(_thrice, 2), doubled("exp", 2)]
    store.addresses(both)
    assert len(index(kept).read_text().split("\n")) == 3


def test_a_method_that_a_user_has_put_into_the_builder_is_not_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VecMath, "mine", lambda k, x: k.mul(x, x), raising=False)
    monkeypatch.setattr(VecMath, "square", lambda k, x: k.add(x, x))
    for name, want in (("mine", 9.0), ("square", 6.0)):
        spec = doubled(name)
        assert run(store.addresses([spec])[spec], 3.0) == want
    assert not files(kept)
    monkeypatch.undo()
    config.cache_dir = kept
    forget(monkeypatch)
    spec = doubled("square")
    assert run(store.addresses([spec])[spec], 3.0) == 9.0
    assert len(files(kept)) == 1


def test_functions_that_say_they_are_the_librarys(kept: Path) -> None:
    made: dict[str, Any] = {"__name__": "yota_py.rules.power"}
    exec("def square(k, x): return k.add(x, x)", made)
    said = lambda k, x: k.add(x, x)  # noqa: E731
    said.__module__, said.__qualname__ = "yota_py.rules.power", "square"
    assert text_of(named(made["square"])) is text_of(named(said)) is None


def test_after_an_upgrade_a_process_keeps_and_finds_nothing(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs in it may be what stood in the files before."""
    store.addresses([doubled("exp")])
    assert len(files(kept)) == 1
    forget(monkeypatch)
    monkeypatch.setattr(disk, "IMPORTED", Path(disk.__file__).stat().st_mtime_ns - 1)
    disk.kind.cache_clear()
    try:
        spec = doubled("exp")
        assert_allclose(run(store.addresses([spec])[spec], 0.5), np.exp(0.5))
        store.addresses([doubled("sin")])
        assert disk.kind() is None and len(files(kept)) == 1 and not disk._loaded
    finally:
        disk.kind.cache_clear()


def test_kernels_of_the_library_have_texts_of_their_own() -> None:
    yota_py.primitives()
    texts = {name: text_of(name) for name in kernels._emitters if not name.startswith(__name__)}
    of_library = {name: text for name, text in texts.items() if text is not None}
    assert len(of_library) > 20
    assert len(set(of_library.values())) == len(of_library)
    assert text_of("exp") is None  # a method of the builder is none that was named


def test_what_was_made_of_a_text_has_none() -> None:
    space: dict[str, Any] = {"__builtins__": {}}
    exec("def emit(b, x):\n    return x", space)
    space["emit"].__module__ = __name__
    assert text_of(named(space["emit"])) is None


def test_other_structures_have_other_keys() -> None:
    specs = [
        doubled("exp"), doubled("exp", 2), doubled("sin"), doubled(), KernelSpec(0, True, (), (), ()),
        store.ProductSpec("float64", True), store.ProductSpec("float64", False), store.ProductSpec("float32", True),
        store.SmallProductSpec("float64", (2, 2, 2), True), store.SmallProductSpec("float64", (2, 2, 3), True),
        store.LapackSpec("float64", "solve"), store.LapackSpec("float64", "cholesky", True),
        store.SortSpec("int8", "stable", True), store.SortSpec("int8", "stable", False),
    ]  # fmt: skip
    assert len({store._key(spec) for spec in specs}) == len(specs)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_disk_that_fails(number: int, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(number, os.strerror(number))

    spec = doubled("log")
    for name in ("replace", "mkdir", "stat"):
        forget(monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, fail)
            assert run(store.addresses([spec])[spec], 1.0) == 0.0
        assert not files(kept) and not list(kept.rglob("new-*"))


def test_what_others_own_is_not_used(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.addresses([doubled("log1p")])
    assert len(files(kept)) == 1
    forget(monkeypatch)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    store.addresses([doubled("expm1")])
    assert len(files(kept)) == 1


def test_what_was_not_used_for_longest_gives_way(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [doubled("exp", depth) for depth in range(1, 7)]
    for age, spec in enumerate(specs):
        forget(monkeypatch)
        store.addresses([spec])
        for path in files(kept):
            if path.stat().st_mtime > 1e9:  # the newest one
                os.utime(path, (1000 + age, 1000 + age))
    oldest_first = sorted(files(kept), key=lambda path: path.stat().st_mtime)
    assert len(oldest_first) == 6
    monkeypatch.setattr(disk, "MOST_BYTES", sum(path.stat().st_size for path in oldest_first[:4]))
    disk._shorten.cache_clear()
    disk._shorten(kept)
    left = sorted(files(kept), key=lambda path: path.stat().st_mtime)
    assert 0 < len(left) < 4 and left == oldest_first[-len(left) :]
    forget(monkeypatch)
    want = np.float64(-1.5)
    for spec in specs:  # the index still names files that are gone
        with np.errstate(over="ignore"):
            want = np.exp(want)
        assert_allclose(run(store.addresses([spec])[spec], -1.5), want)


def test_clear_cache(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.exp(x) * x)

    first = grad(f, np.ones(3))
    assert files(kept)
    folder = index(kept).parent
    for other in (kept / "mine.code", kept / "code-of-mine" / "x.code", folder / "notes.txt"):
        other.parent.mkdir(exist_ok=True)
        other.write_text("mine")
    yota_py.clear_cache()
    left = {path.name for path in kept.rglob("*") if path.is_file()}
    assert left == {"mine.code", "x.code", "notes.txt"}
    assert_allclose(grad(f, np.ones(3))[1][0], first[1][0])  # what is loaded stays
    (folder / "notes.txt").unlink()
    yota_py.clear_cache()
    assert not folder.exists()
    yota_py.clear_cache()  # nothing is there
    config.cache_dir = ""  # as in the environment, and not the directory of the process
    assert config.cache_dir is None
    config.cache_dir = None
    yota_py.clear_cache()
    for odd in (kept / "nowhere", kept / ("long" * 200), Path("/dev/null"), kept / "mine.code"):
        config.cache_dir = odd
        yota_py.clear_cache()
    config.cache_dir = kept
    for odd in (folder / "index", folder / ("0" * 32 + ".code")):
        odd.mkdir(parents=True)
        yota_py.clear_cache()
        assert odd.is_dir()


# ---------------------------------------------------------------------------------------------------- the setting


@pytest.mark.parametrize("wrong", [1, True, b"bytes", ["list"]])
def test_settings_that_are_none(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"config\.cache_dir is a path, or None; got"):
        Config().cache_dir = wrong


def test_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("YOTA_CACHE_DIR", str(tmp_path))
    assert Config().cache_dir == tmp_path
    monkeypatch.setenv("YOTA_CACHE_DIR", "")
    assert Config().cache_dir is None
    monkeypatch.delenv("YOTA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    settings = Config()
    if sys.platform == "linux":
        assert settings.cache_dir == tmp_path / "caches" / "yota_py"
    settings.cache_dir = "~/here"
    assert settings.cache_dir == Path.home() / "here"
    assert f"cache_dir={settings.cache_dir!r}" in repr(settings)
    with pytest.raises(ValueError, match="nobody-of-this-name"):
        settings.cache_dir = "~nobody-of-this-name/x"
    settings.cache_dir = None
    assert settings.cache_dir is None
    monkeypatch.chdir(tmp_path)
    settings.cache_dir = "relative"
    assert settings.cache_dir == tmp_path / "relative"
