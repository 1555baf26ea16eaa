"""The disk cache of compiled code: object files with their facts, named by a hash of all that they depend on.

A file is data, not a pickle: one line of magic and sizes, the SHA-256 of the rest, JSON, then the object file. It is
written to a private temporary and renamed, so that readers see all of it or nothing, however many processes
write. Whatever is wrong with a file (damaged, cut off, of another user, of an older format) makes it a miss.
The folder is kept below a size by removing what was not used for longest.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import platform
import stat
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm_py.deferred import deferred
from dlvm_py.errors import ArgumentError
from dlvm_py.options import environment

if TYPE_CHECKING:
    import hashlib
    import json
    import tempfile

    import llvmlite
    import llvmlite.binding as llvm
    import platformdirs
else:
    hashlib, json = deferred("hashlib"), deferred("json")
    tempfile, platformdirs = deferred("tempfile"), deferred("platformdirs")
    llvmlite, llvm = deferred("llvmlite"), deferred("llvmlite.binding")

_MAGIC = b"dlvm-py object 1"
_SUFFIX = ".dlvm"
_TOUCH_AFTER = 3600.0  # seconds: how exact the time of the last use is
_SWEEP_TO = 0.8  # share of the bound that a sweep leaves, so that the next one is not due at once
_READ = functools.reduce(operator.or_, (getattr(os, f"O_{n}", 0) for n in ("RDONLY", "NOFOLLOW", "NONBLOCK", "BINARY")))
_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


# by folder: bytes that this process has put since it last measured it
_written: dict[str, int] = {}


def cache_key(*parts: object) -> str:
    """A file name for `parts`: bytes, or anything whose repr says all about it."""
    digest = hashlib.sha256()
    for part in (environment_key(), *parts):
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@functools.cache
def environment_key() -> str:
    """What compiled code depends on besides its source: our own files, versions, and the CPU."""
    facts = (
        sorted(_sources(_PACKAGE)),
        np.__version__,
        llvmlite.__version__,
        llvm.llvm_version_info,
        sys.implementation.cache_tag,
        sys.version,
        platform.machine(),
        sys.platform,
        sys.byteorder,
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _sources(folder: str) -> Iterator[tuple[str, int, int]]:
    """The path, size and time of every file of ours under a folder."""
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith((".py", ".ll")):
                facts = entry.stat()
                yield entry.path[len(_PACKAGE) :], facts.st_size, facts.st_mtime_ns
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _sources(entry.path)


class Cache:
    """A folder of compiled objects. Nothing here raises because of what is, or is not, on the disk."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, size_mib: float | None = None) -> None:
        """`folder` and `size_mib` default to DLVM_CACHE_DIR (or the user's cache folder) and DLVM_CACHE_SIZE."""
        chosen = folder or environment("DLVM_CACHE_DIR")
        self.folder = os.path.expanduser(chosen) if chosen else platformdirs.user_cache_dir("dlvm-py", appauthor=False)
        self.limit = int((_size_wanted() if size_mib is None else size_mib) * 2**20)

    def get(self, key: str) -> tuple[dict[str, Any], bytes] | None:
        """The facts and the object file under `key`, or None."""
        path = os.path.join(self.folder, key + _SUFFIX)
        try:
            # not through a link, and no waiting for what is no plain file
            with open(os.open(path, _READ), "rb") as file:
                if not _is_ours(os.fstat(file.fileno())):
                    return None
                data = file.read()
                used = os.fstat(file.fileno()).st_mtime
            found = _unpack(data)
        except (OSError, ValueError):
            return None
        if time.time() - used > _TOUCH_AFTER:
            with contextlib.suppress(OSError):
                os.utime(path)
        return found

    def put(self, key: str, meta: dict[str, Any], image: bytes) -> bool:
        """Stores an object file with its facts (JSON values); False if that was not possible."""
        data = _pack(meta, image)
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
            try:
                with open(descriptor, "wb") as file:
                    file.write(data)
                os.replace(temporary, os.path.join(self.folder, key + _SUFFIX))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError:
            return False
        self._bound(len(data))
        return True

    def _bound(self, added: int) -> None:
        """Sweeps at the first put of the process, and after each further tenth of the bound."""
        before = _written.get(self.folder)
        if before is not None and before + added < self.limit // 10:
            _written[self.folder] = before + added
            return
        _written[self.folder] = 0
        self.sweep()

    def sweep(self) -> None:
        """Removes what was used longest ago until the folder fits, and temporaries that nobody renamed."""
        entries = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as found:
            for entry in found:
                with contextlib.suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(_SUFFIX):
                        entries.append((facts.st_mtime, facts.st_size, entry.path))
                    elif entry.name.endswith(".tmp") and time.time() - facts.st_mtime > _TOUCH_AFTER:
                        os.unlink(entry.path)
        total = sum(size for _, size, _ in entries)
        if total <= self.limit:
            return
        for _, size, path in sorted(entries):
            if total <= self.limit * _SWEEP_TO:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


def _size_wanted() -> float:
    text = environment("DLVM_CACHE_SIZE")
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"DLVM_CACHE_SIZE={text!r} is no number of MiB", code="DL708") from None


def _is_ours(facts: os.stat_result) -> bool:
    """A plain file that only this user can have written."""
    if not stat.S_ISREG(facts.st_mode):
        return False
    return not hasattr(os, "getuid") or (facts.st_uid == os.getuid() and not facts.st_mode & 0o022)


def _pack(meta: dict[str, Any], image: bytes) -> bytes:
    body = json.dumps(meta, separators=(",", ":")).encode()
    head = b"%s %d %d\n" % (_MAGIC, len(body), len(image))
    return head + hashlib.sha256(head + body + image).digest() + body + image


def _unpack(data: bytes) -> tuple[dict[str, Any], bytes] | None:
    """The parts of a file's bytes; None or a ValueError if they are not as written."""
    head, newline, rest = data.partition(b"\n")
    if not head.startswith(_MAGIC + b" "):
        return None
    body_size, image_size = map(int, head[len(_MAGIC) :].split())
    digest, content = rest[:32], rest[32:]
    if len(content) != body_size + image_size or hashlib.sha256(head + newline + content).digest() != digest:
        return None
    meta = json.loads(content[:body_size])
    return (meta, content[body_size:]) if isinstance(meta, dict) else None
