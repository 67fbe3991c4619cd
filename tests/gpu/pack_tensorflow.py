"""Packs TensorFlow and the plugin for a machine with a GPU and without a network.

usage: python tests/gpu/pack_tensorflow.py [--tensorflow 2.21.0] [--python 3.12] [REQUIREMENT...]

TensorFlow must be of the release that the plugin was built for (`make build`). The machine must
have an x86-64 processor, this version of Python, CUDA's libraries, xz, and what TensorFlow and the
tests require, except the REQUIREMENTs, which are packed too. Copy build/gpu/tensorflow/part.*
there, and set TENSORFLOW_PARTS for run.sh, which unpacks them.

The parts are small enough to be sent one by one. Of TensorFlow's device code, only the machine code
for one architecture is kept. Files that the tests do not need are left out.
"""

from __future__ import annotations

import argparse
import mmap
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "build" / "gpu" / "tensorflow"
PART_SIZE = "54M"
REQUIREMENTS = (
    "numpy==2.4.6 keras==3.15.1 astunparse gast google-pasta termcolor namex optree portpicker"
)
PLATFORMS = [f"--platform=manylinux_2_{glibc}_x86_64" for glibc in (28, 27, 17)]
ARCHITECTURE = 90  # That of sm_90, for the H100 and the H200.
PROFILER = "tensorflow/python/profiler/internal/_pywrap_profiler_plugin"
LEFT_OUT = (
    "tensorflow/include",
    "tensorflow/compiler/mlir/stablehlo/stablehlo_extension.so",
    "tensorflow/compiler/tf2xla/ops/_xla_ops.so",
    f"{PROFILER}.so",
    "nvidia",
)
STAND_INS = {
    f"{PROFILER}.py": "def __getattr__(name): return None\n",
    "cv2.py": 'raise ImportError("OpenCV is left out, because it changes LD_LIBRARY_PATH")\n',
}
# The headers of a region of device code, and of an entry in it.
REGION, REGION_MAGIC = struct.Struct("<IHHQ"), 0xBA55ED50
ENTRY, MACHINE_CODE = struct.Struct("<HHIQ12xI"), 2


def install(site: Path, python: str, requirements: list[str]) -> None:
    options = ["--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", *PLATFORMS]
    target = [f"--python-version={python}", "--implementation=cp", f"--target={site}"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *target, *requirements], check=True
    )


def cut_device_code(library: Path) -> None:
    """Overwrites device code with zeros, except machine code for ARCHITECTURE."""
    sections = subprocess.check_output(["readelf", "-SW", library], text=True)
    (section,) = (line for line in sections.splitlines() if " .nv_fatbin " in line)
    position, size = (int(word, 16) for word in section.partition("PROGBITS")[2].split()[1:3])
    end = position + size
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        while position < end:
            magic, _, header_size, region_size = REGION.unpack_from(data, position)
            if magic != REGION_MAGIC:  # The padding between regions.
                position += 8
                continue
            position += header_size
            region_end = position + region_size
            while position < region_end:
                kind, _, header_size, code_size, architecture = ENTRY.unpack_from(data, position)
                position += header_size
                if (kind, architecture) != (MACHINE_CODE, ARCHITECTURE):
                    data[position : position + code_size] = bytes(code_size)
                position += code_size


def prepare(site: Path, plugin: list[Path]) -> None:
    """Leaves out of the installed packages what the tests do not need, and adds the plugin.

    The folder `lib` has the plugin, and libraries for LD_LIBRARY_PATH.
    """
    (site / "lib").mkdir()
    for file in [*plugin, *site.glob("nvidia/cuda_runtime/lib/libcudart.so.*")]:
        shutil.copy2(file, site / "lib")
    for name in LEFT_OUT:
        path = site / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for name, text in STAND_INS.items():
        (site / name).write_text(text)
    for name in ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2"):
        cut_device_code(site / "tensorflow" / name)
    # Those of NumPy cannot be loaded any more once they are stripped.
    libraries = (site / "tensorflow").rglob("*.so*")
    subprocess.run(["strip", "--strip-unneeded", *libraries], check=True)


def pack(site: Path) -> None:
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    packing = (
        'tar -c --sort=name -C "$0" . | xz -T0 --x86 --lzma2=preset=6e'
        f' | split --bytes={PART_SIZE} --numeric-suffixes=1 --suffix-length=1 - "$1"'
    )
    command = ["bash", "-o", "pipefail", "-c", packing, site, OUTPUT / "part."]
    subprocess.run(command, check=True)
    for part in sorted(OUTPUT.iterdir()):
        print(part.relative_to(ROOT), part.stat().st_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensorflow", default="2.21.0", metavar="VERSION")
    parser.add_argument("--python", default="3.12", metavar="VERSION")
    parser.add_argument("requirements", nargs="*", default=REQUIREMENTS.split())
    arguments = parser.parse_args()
    minor = arguments.tensorflow.rpartition(".")[0]
    plugin = list((ROOT / "tf_condacc").glob(f"_*-{minor}.*"))
    if len(plugin) != 2:
        sys.exit(f"tf_condacc has no library for TensorFlow {minor}: run make build first")
    releases = [f"tensorflow=={arguments.tensorflow}", f"tf_keras=={minor}.*"]
    requirements = [*releases, "nvidia-cuda-runtime-cu12", *arguments.requirements]
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder), arguments.python, requirements)
        prepare(Path(folder), plugin)
        pack(Path(folder))


if __name__ == "__main__":
    main()
