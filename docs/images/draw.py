#!/usr/bin/env python3
"""Draws the pictures of the documentation anew, from programs that it runs: `make pictures`.

  docs/images/draw.py [PICTURE ...]   # growth and towers, for example; by default all

The pictures are those of the programs, with a caption below: the machine and the day.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from matplotlib import image
from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
GREY, DPI = "#5b6470", 150
EXAMPLES = ROOT / "examples"
LAUNCH = ["-m", "condacc", "launch", "--ps", "1", "--workers", "4", "--restarts", "1", "--"]
CLUSTER = ["--steps", "1000", "--takeover-secs", "1", "--fault-at", "120"]


def main() -> int:
    """Draws the pictures that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("picture", nargs="*", help=f"(all) {' '.join(PICTURES)}")
    names = parser.parse_args().picture or list(PICTURES)
    if unknown := set(names) - set(PICTURES):
        parser.error(f"there is no picture {sorted(unknown)}, expected some of {list(PICTURES)}")
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            drawn = Path(place) / f"{name}.png"
            PICTURES[name](drawn)
            if name == "growth":  # The benchmark already writes a caption.
                shutil.copy(drawn, FOLDER)
            else:
                write_with_caption(drawn, FOLDER / drawn.name)
        print(f"=== {name}.png", flush=True)
    return 0


def run(*arguments: object, folder: Path) -> None:
    """Runs a Python program of the source tree in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, arguments)]
    subprocess.run(command, cwd=folder, env=environment, check=True)


def example(program: str) -> Callable[[Path], None]:
    """Returns a function that has one of the examples draw its picture."""
    return lambda path: run(EXAMPLES / program, "--output", path, folder=path.parent)


def cluster(path: Path) -> None:
    """Draws a training with five processes, one of which is killed."""
    program = [sys.executable, EXAMPLES / "cluster_digits.py", *CLUSTER, "--output", path]
    run(*LAUNCH, *program, folder=path.parent)


def growth(path: Path) -> None:
    """Draws the cost of consecutive sparse applies, beside TensorFlow's own."""
    run(ROOT / "benchmarks/run.py", "--scenario", "S2", "--output", path.parent, folder=path.parent)
    (path.parent / "latest.growth.png").rename(path)


def write_with_caption(source: Path, target: Path) -> None:
    """Writes a picture with a caption in a strip below it."""
    pixels = image.imread(source)
    height, width = pixels.shape[:2]
    strip = 45
    figure = Figure(figsize=(width / DPI, (height + strip) / DPI), dpi=DPI)
    figure.figimage(pixels, 0, strip)
    figure.text(0.5, strip / 3 / (height + strip), caption(), ha="center", color=GREY, fontsize=9)
    figure.savefig(target, format="png")


def caption() -> str:
    """Returns what the pictures were drawn with, on which machine, and when."""
    import tensorflow as tf

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next(line.partition(": ")[2] for line in lines if line.startswith("model name"))
    day = time.strftime("%Y-%m-%d")
    return f"TensorFlow {tf.__version__} on {os.cpu_count()} cores of {cpu}, {day}"


PICTURES: dict[str, Callable[[Path], None]] = {
    "growth": growth,  # First, before the other programs add to the load.
    "demo": example("digits.py"),
    "async_digits": example("async_digits.py"),
    "towers": example("towers.py"),
    "cluster_digits": cluster,
}

if __name__ == "__main__":
    sys.exit(main())
