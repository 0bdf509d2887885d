"""Machine code on disk, for other processes: object files, each named by a hash of what is in it, and an index.

A folder belongs to one kind of machine, and to one version of this code and of what has compiled it. The index has a
line for each function, ``key file``; lines are only added, by many processes at once, and one that is not whole says
nothing. Nothing is believed that is not as it was written: a file whose contents have another hash, or do not define
what the index says; a folder or file that others own or may write. What cannot be read is compiled, and what cannot be
written is compiled again by the next process: ``find`` and ``keep`` raise no exception of the file system.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from ...base.ownership import PACKAGE
from ...base.settings import IMPORTED, config
from .codegen import Code, load, processor

MOST_BYTES = 512 << 20  # in all folders together: those files give way that have not been used for longest
DIGITS = 32  # hexadecimal ones, of a hash
_HASH = rf"[0-9a-f]{{{DIGITS}}}"
_LINE = re.compile(rf"^({_HASH}) ({_HASH})$", re.MULTILINE)
_FOLDER = re.compile(rf"code-{_HASH}")
_INDEX, _SUFFIX = "index", ".code"
_CALLS = "calls"  # in the head of a file, before the name of a function that is elsewhere
_MAKERS = ("llvmlite", "numpy", "scipy")
_VERSIONS = ("_version.py", "version.py", "__init__.py")
# What files that are not as they were written, and links to what is not there, lead to.
_WRONG = (OSError, ValueError, ImportError)

_loaded: dict[str, int] = {}  # the functions of all files that this process has loaded, by the hashes of their keys


def find(keys: Iterable[str]) -> dict[str, int]:
    """The addresses of those functions of these keys that are on disk."""
    wanted = {_digest(key): key for key in keys}
    with suppress(*_WRONG):
        if (folder := _folder()) is None:
            return {}
        files = _index(folder)
        for file in dict.fromkeys(files[short] for short in wanted if short in files and short not in _loaded):
            _load(folder / (file + _SUFFIX))
    return {key: _loaded[short] for short, key in wanted.items() if short in _loaded}


def keep(code: Code, keys: Mapping[str, str]) -> None:
    """Write machine code, whose functions have these keys, by their names."""
    with suppress(*_WRONG):
        folder = _folder()
        if folder is None or not keys:
            return
        functions = {_digest(key): name for name, key in keys.items()}
        head = [*functions.items(), *((_CALLS, name) for name in code.external)]
        contents = "".join(f"{word} {name}\n" for word, name in head).encode() + b"\n" + code.object
        file = _digest(contents)
        _write(folder, file + _SUFFIX, contents)
        if (folder / _INDEX).exists() and not (folder / _INDEX).is_file():
            return
        # One write, which starts a new line even behind one that is not whole.
        lines = "\n" + "".join(f"{short} {file}\n" for short in functions)
        with open(os.open(folder / _INDEX, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "wb", buffering=0) as index:
            index.write(lines.encode())
        _shorten(folder.parent)


def clear(directory: Path) -> None:
    """Remove what is kept in a directory, and nothing else that may be there."""
    for path in [*_files(directory)]:
        if path.is_file():
            path.unlink(missing_ok=True)
    for folder in _folders(directory):
        if (folder / _INDEX).is_file():
            (folder / _INDEX).unlink(missing_ok=True)
        with suppress(OSError):  # something else is there
            folder.rmdir()


@functools.cache
def is_filled(directory: Path | None) -> bool:
    """Whether an earlier process has left machine code in a directory."""
    with suppress(OSError):
        return directory is not None and any(True for _ in _files(directory))
    return False


def _digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:DIGITS]


@functools.cache
def kind() -> str | None:
    """What machine code depends on besides what it is to do, as a word; ``None`` if that is not known."""
    home = Path(__file__).resolve().parents[2]
    rooms = [home / "engine", home / "registry", *map(Path, sys.modules[f"{PACKAGE}.rules"].__path__)]
    sources = [sorted(room.rglob("*.py")) for room in rooms]
    if not all(sources):  # there is no more than compiled Python
        return None
    variables = [f"{name}={os.environ.get(name)}" for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")]
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", ()) else None
    python = sys.version, sys.platform, str(object.__basicsize__), str(libc)
    made_by = [path for package in _MAKERS for path in _that_say_the_version(package)]
    whole = hashlib.sha256("\n".join([*processor(), *python, *variables]).encode())
    for path in (*made_by, *chain(*sources)):
        status = path.stat()
        if max(status.st_mtime_ns, status.st_ctime_ns) > IMPORTED:  # what runs here may be what stood there before
            return None
        whole.update(path.read_bytes())
    return whole.hexdigest()[:DIGITS]


def _that_say_the_version(package: str) -> list[Path]:
    """The files that are others in each version of a package, which need not be imported for that."""
    spec = find_spec(package)
    places = (spec and spec.submodule_search_locations) or ()
    return [path for place in places for path in map(Path(place).joinpath, _VERSIONS) if path.is_file()]


def _folder() -> Path | None:
    """The folder for machine code of this process, made if it is not there; ``None`` if there is none to be trusted."""
    directory, word = config.cache_dir, kind()
    if directory is None or word is None:
        return None
    folder = Path(directory) / f"code-{word}"
    for path in (folder.parent, folder):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder if _is_own(folder.parent) and _is_own(folder) else None


def _is_own(path: Path) -> bool:
    """Whether nobody else can write there."""
    status = path.stat()
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def _index(folder: Path) -> dict[str, str]:
    """The files of functions, by the hashes of their keys; later lines count."""
    path = folder / _INDEX
    if not (path.is_file() and _is_own(path)):
        return {}
    status, known = path.stat(), _read[0]
    which = path, status.st_dev, status.st_ino
    if known is None or known[0] != which or known[1] > status.st_size:
        known = which, 0, {}
    _, at, files = known
    if at < status.st_size:  # it only grows
        with path.open("rb") as index:
            index.seek(at)
            new = index.read(status.st_size - at)
        files |= _LINE.findall(new.decode("ascii", errors="replace"))
        at += new.rfind(b"\n") + 1
    _read[0] = which, at, files
    return files


# The index that was read last: which file that is, up to where, and what it has said.
_read: list[tuple[tuple[Path, int, int], int, dict[str, str]] | None] = [None]


def _load(path: Path) -> None:
    """Load the functions of a file, if it is as it was written."""
    if not (path.is_file() and _is_own(path)):
        return
    contents = path.read_bytes()
    if _digest(contents) != path.stem:
        return
    head, _, code = contents.partition(b"\n\n")
    lines = [line.split(" ") for line in head.decode().split("\n")]
    functions = {short: name for short, name in lines if short != _CALLS}
    addresses = load(code, [name for word, name in lines if word == _CALLS], functions.values())
    if addresses is not None:
        _loaded.update((short, addresses[name]) for short, name in functions.items())
        _touch(path)


def _touch(path: Path) -> None:
    """It has been used; a disk that cannot be written may be read."""
    with suppress(OSError):
        os.utime(path)


def _write(folder: Path, name: str, contents: bytes) -> None:
    """A file that is there whole, or not at all."""
    temporary = folder / f"new-{os.urandom(8).hex()}{_SUFFIX}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(contents)
        temporary.replace(folder / name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _folders(directory: Path) -> Iterator[Path]:
    if os.path.isdir(directory):  # asked of a path, names that are too long are an error
        yield from (path for path in directory.iterdir() if _FOLDER.fullmatch(path.name) and path.is_dir())


def _files(directory: Path) -> Iterator[Path]:
    for folder in _folders(directory):
        yield from folder.glob(f"*{_SUFFIX}")


@functools.cache
def _shorten(directory: Path) -> None:
    """Once a process: if there is too much, remove the files that have not been used for longest, and leave half."""
    sizes = {path: path.stat() for path in _files(directory)}
    excess = sum(status.st_size for status in sizes.values()) - MOST_BYTES
    if excess <= 0:
        return
    for path, status in sorted(sizes.items(), key=lambda item: item[1].st_mtime):
        path.unlink(missing_ok=True)
        excess -= status.st_size
        if excess <= -MOST_BYTES // 2:
            break
