"""A cross compiler, an emulator and a Python for aarch64, on an x86-64 machine.

All of them are unpacked from Debian's packages below .tools/aarch64, which takes half a minute and
600 MB. Nothing is installed. `make wheels` and `make test-aarch64` use them.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".tools" / "aarch64"
PYTHON = "3.11"  # That of the Debian below. Every TensorFlow that is supported has a wheel for it.

_TRIPLE, _SUITE, _GCC = "aarch64-linux-gnu", "bookworm", "12"
_EMULATOR = "bin/qemu-aarch64-static"
# Programs for this machine, and the libraries that they need. The sysroot has the rest.
_PROGRAMS = (
    *(f"{name}-{_GCC}-{_TRIPLE}" for name in ("cpp", "gcc", "g++")),
    *(f"binutils-{_TRIPLE}", f"libgcc-{_GCC}-dev-arm64-cross", "qemu-user-static"),
    *("libgmp10", "libisl23", "libmpc3", "libmpfr6", "libzstd1", "zlib1g"),
)
_PYTHON_PACKAGES = (
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib"),
    *("libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libssl3", "libuuid1", "zlib1g"),
    *("libc6", "libcrypt1", "libgcc-s1", "libstdc++6"),
)
# The versions of glibc that wheels for this Python may ask for.
_TAGS = [f"manylinux_2_{minor}_aarch64" for minor in range(17, 37)] + ["manylinux2014_aarch64"]


class UnavailableError(Exception):
    """The tools cannot be had on this machine. The message says why, in one sentence."""


class Tools:
    """The tools, which are made when they are first asked for.

    Attributes:
        compiler: Command for a shell that compiles against the headers and libraries of the older
            Debian that release/sysroot.sh unpacks.
    """

    def __init__(self) -> None:
        """Unpacks compiler, emulator and sysroot.

        Raises:
            UnavailableError: They cannot be had here, or do not work.
        """
        machine = platform.machine()
        if machine != "x86_64":
            raise UnavailableError(f"the cross compiler runs on x86-64, and this is {machine}")
        self._programs = _unpack("programs", "amd64", _PROGRAMS) / "usr"
        for each in self._programs.glob("bin/qemu-*-static"):
            if each != self._programs / _EMULATOR:
                each.unlink()  # The package has the emulators of 30 other processors.
        sysroot = ROOT / "release" / "sysroot.sh"
        compiler = shlex.quote(str(self.program(f"g++-{_GCC}")))
        self.compiler = _ask(sysroot, WORK / "sysroot", "aarch64", CXX=compiler)
        self.sysroot = WORK / "sysroot" / "root"
        _ask(self.program(f"g++-{_GCC}"), "-dumpversion")

    def program(self, name: str) -> Path:
        """Returns a program of the compiler or of binutils, such as "objdump"."""
        name = f"{_TRIPLE}-{name}"
        libraries = self._programs / "lib" / "x86_64-linux-gnu"
        return _write_script(
            WORK / "bin" / name,
            f"export LD_LIBRARY_PATH={shlex.quote(str(libraries))}",
            f'exec {shlex.quote(str(self._programs / "bin" / name))} "$@"',
        )

    def emulated(self, program: Path, *options: str, root: Path | None = None) -> list[str]:
        """Returns the command that runs a program for aarch64 on this machine.

        Args:
            program: The program.
            *options: Options of the emulator.
            root: Folder with the libraries that it was linked with. By default, the sysroot.
        """
        qemu = str(self._programs / _EMULATOR)
        return [qemu, *options, "-L", str(root or self.sysroot), str(program)]

    def make_python(self, folder: Path, *requirements: str, pip: Sequence[str] = ()) -> Path:
        """Makes an environment with some packages, and returns its Python, which is emulated.

        Args:
            folder: Folder of the environment, which must not have one.
            *requirements: What pip should install.
            pip: Command that starts the pip of a Python of the same version on this machine. pip
                takes the conditions of requirements from the Python that it runs on.

        Raises:
            UnavailableError: The Python cannot be had here, or pip fails.
        """
        root = _unpack("python", "arm64", _PYTHON_PACKAGES)
        site = folder / "lib" / f"python{PYTHON}" / "site-packages"
        self.install(site, *requirements, pip=pip)
        # A Python looks for this file beside the path that it was called by, which is its argument
        # 0, and then finds the packages as in every virtual environment.
        (folder / "pyvenv.cfg").write_text(f"home = {root / 'usr' / 'bin'}\n")
        python = root / "usr" / "bin" / f"python{PYTHON}"
        emulator, *options = map(shlex.quote, self.emulated(python, root=root))
        command = " ".join(["exec", emulator, "-0", '"$0"', *options, '"$@"'])
        return _write_script(folder / "bin" / "python", command)

    def install(self, site: Path, *requirements: str, pip: Sequence[str] = ()) -> None:
        """Installs packages for aarch64 into a folder.

        Args:
            site: The folder.
            *requirements: What pip should install, and its options.
            pip: See `make_python`.

        Raises:
            UnavailableError: pip fails.
        """
        tags = [f"--platform={tag}" for tag in (*_TAGS, "linux_aarch64")]
        _ask(
            *(pip or [sys.executable, "-m", "pip"]),
            *("install", "--quiet", "--disable-pip-version-check", "--no-compile"),
            *(f"--target={site}", "--only-binary=:all:", "--implementation=cp", *tags),
            *(f"--python-version={PYTHON}", f"--abi=cp{PYTHON.replace('.', '')}", "--abi=abi3"),
            *("--abi=none", *requirements),
        )


def _unpack(name: str, architecture: str, packages: Sequence[str]) -> Path:
    """Returns a folder with the files of some packages."""
    script = ROOT / "release" / "unpack.sh"
    _ask(script, WORK / name, _SUITE, architecture, *packages)
    return WORK / name / "root"


def _ask(*command: object, **variables: str) -> str:
    """Runs a command with some environment variables, and returns what it prints.

    Raises:
        UnavailableError: It fails.
    """
    words = [str(word) for word in command]
    environment: Mapping[str, str] = {**os.environ, **variables}
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
    except OSError as error:
        raise UnavailableError(f"{words[0]} cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise UnavailableError(f"{Path(words[0]).name} failed: {lines[-1]}")
    return done.stdout.strip()


def _write_script(file: Path, *lines: str) -> Path:
    """Writes a program for a shell, and returns its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    file.chmod(0o755)
    return file
