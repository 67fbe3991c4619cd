"""The launchers' speed, beside a copy on the device and beside PyTorch and CuPy on the same data.

usage: python tests/gpu/bench LIBRARY [--json FILE]   (LIBRARY: what run.sh builds of
gpu_launchers.cc)

Each figure is the median of repeated runs, timed by events of the device. Bytes count every input
and output once. The bandwidth of a copy is that of one which is too large for the caches. A case
that fails is told, and the others are run; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from pathlib import Path

import torch
from dense import DenseCase, HostTime
from launchers import Launchers, copy_bandwidth
from sparse import SparseCase

SEED = 1

Case = DenseCase | SparseCase | HostTime


def cases() -> list[Case]:
    large = 1 << 24
    result: list[Case] = [DenseCase(large, count, goal=0.9) for count in (4, 5, 6, 7, 8)]
    result += [DenseCase(1 << 26, 8, goal=0.9)]
    result += [SparseCase(32, 100_000, 64, n, goal=0.4, times_faster=2) for n in (200_000, 10**6)]
    result += [HostTime()]
    result += [DenseCase(large, 8, dtype) for dtype in (torch.float16, torch.bfloat16)]
    result += [DenseCase(large + 1, 8), DenseCase(large, 8, offset=1)]
    result += [SparseCase(32, 100_000, 64, 10**6, power_law=True, mean=m) for m in (False, True)]
    result += [SparseCase(32, 100_000, 64, n) for n in (5000, 20_000)]
    result += [SparseCase(32, 100_000, 64, 10**6, knows_rows=False)]
    result += [SparseCase(32, 100_000, 64, 10**6, d) for d in (torch.float16, torch.bfloat16)]
    result += [SparseCase(32, 100_000, 63, 10**6), SparseCase(32, 100_000, 64, 10**6, offset=1)]
    return result


def show(result: dict) -> None:
    for name, (got, goal) in result["goals"].items():
        verdict = "reached" if goal is not None and got >= goal else "MISSED"
        judged = "" if goal is None else f": the goal, {goal}, is {verdict}"
        print(f"    {got:.2f} {name}{judged}")
    for name, took in result["seconds"].items():
        print(f"    {name:32} {took * 1e6:12.1f} us", flush=True)


def run(case: Case, launchers: Launchers, copy: float) -> dict:
    print(case, flush=True)
    try:
        result = case.run(launchers, copy)
    except Exception as error:
        traceback.print_exc()
        return {"case": str(case), "error": f"{type(error).__name__}: {error}"}
    show(result)
    return {"case": str(case), **result}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", metavar="LIBRARY")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    launchers = Launchers(arguments.path)
    copy = copy_bandwidth()
    print(f"copy: {copy / 1e9:.0f} GB/s, seed {SEED}")
    results = []
    for case in cases():
        results.append(run(case, launchers, copy))
        torch.cuda.empty_cache()
        if arguments.json:
            versions = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
            text = json.dumps({**versions, "copy": copy, "results": results}, indent=1)
            arguments.json.write_text(text + "\n")
    if any("error" in result for result in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
