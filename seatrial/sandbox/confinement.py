"""Which files a child may open, enforced by the kernel (Landlock, Linux 5.13 and newer).

The readers of uploads check what a file asks for; this is for the one that slips through: a path in a configuration, a
hole in a library. A process can only give rights up here, never take them back, and needs none to do so.
https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""System calls; the same number on every architecture."""

_PATH_BENEATH = 1
_VERSION = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_FIRST = (1 << 13) - 1
"""Every right of the first version: to read, write, execute, make and remove."""

_REFER, _TRUNCATE = 1 << 13, 1 << 14
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPES = 0b11
"""Signals and abstract sockets of other processes."""

_READ = _READ_FILE | _READ_DIR | _EXECUTE
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE
_OF_FILES = _READ_FILE | _WRITE_FILE | _EXECUTE | _TRUNCATE

SYSTEM = (
    *("/usr", "/lib", "/lib64", "/bin", "/opt", "/nix/store", "/sys"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"),
    *("/etc/host.conf", "/etc/gai.conf", "/etc/ld.so.cache", "/etc/localtime", "/etc/timezone", "/etc/fonts"),
    *("/etc/mime.types", "/etc/passwd", "/etc/group", "/etc/os-release"),
    *(
        "/proc/self",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/stat",
        "/proc/version",
        "/proc/filesystems",
        "/proc/mounts",
    ),
    *("/proc/sys/vm", "/proc/sys/kernel", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"),
)
"""What libraries read of a system. Of other processes nothing: their environment may hold secrets."""


def version() -> int:
    """Return the version of Landlock this kernel offers; 0 without."""
    if sys.platform != "linux":
        return 0
    return max(0, _system_call(_CREATE_RULESET, None, 0, _VERSION))


def confine(readable: Iterable[Path], writable: Iterable[Path] = (), *, may_connect: bool = False) -> bool:
    """Let this process open nothing but the system's libraries, its own code and these; return whether the kernel does.

    Args:
        readable: Files and folders to read, besides :data:`SYSTEM` and Python's code.
        writable: Folders to write in as well.
        may_connect: Whether it may open TCP connections.

    Raises:
        OSError: The kernel offers Landlock and refuses these rules.
    """
    offered = version()
    if not offered:
        return False
    files = _FIRST | (_REFER if offered >= 2 else 0) | (_TRUNCATE if offered >= 3 else 0)
    ports = (_BIND_TCP | (0 if may_connect else _CONNECT_TCP)) if offered >= 4 else 0
    attributes = struct.pack("=QQQ", files, ports, _SCOPES if offered >= 6 else 0)[
        : 8 * (1 + (offered >= 4) + (offered >= 6))
    ]
    ruleset = _checked(_system_call(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        for path in (*map(Path, SYSTEM), *code(), *readable):
            _allow(ruleset, path, _READ & files)
        for path in (*writable, Path("/dev/null")):
            _allow(ruleset, path, _WRITE & files)
        _checked(_system_call(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def code() -> list[Path]:
    """Return where Python's code lies: the interpreter's folders, and of others on the path their packages alone.

    A checkout on the path may hold the service's files beside its packages.
    """
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    folders = {*prefixes, Path(__file__).resolve().parents[1]}
    folders |= {
        Path(module.__file__).resolve().parent
        for name in ("app", "workers")
        if (module := sys.modules.get(name)) and module.__file__
    }
    for entry in sys.path:
        folder = Path(entry or ".").resolve()
        if any(folder.is_relative_to(prefix) for prefix in prefixes) or not folder.is_dir():
            continue
        if folder.name in ("site-packages", "dist-packages"):
            folders.add(folder)
        else:
            folders |= {package.parent for package in folder.glob("*/__init__.py")} | set(folder.glob("*.py"))
    return sorted(folders)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # Not on this system.
        return
    try:
        if not os.path.isdir(path):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, handle)
        _checked(_system_call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(handle)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return answer


def _system_call(number: int, *arguments: bytes | int | None) -> int:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return int(call(ctypes.c_long(number), *given))
