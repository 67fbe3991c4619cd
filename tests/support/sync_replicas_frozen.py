"""Freezes a worker of a cluster for some time, and checks what was trained.

    python sync_replicas_frozen.py SECONDS [TAKEOVER_SECS]

Every round needs a gradient of each worker, so the others go on only if they may take its slot
over. Prints, as JSON, how many steps the others made meanwhile, and what `check` returns.
"""

from __future__ import annotations

import json
import sys
import time

from tests.support.sync_replicas_processes import NUM_WORKERS, check, running_cluster

FROZEN = 1


def main() -> None:
    seconds, *takeover_secs = map(float, sys.argv[1:])
    with running_cluster(NUM_WORKERS, *(takeover_secs or [None])) as cluster:
        cluster.freeze(("worker", FROZEN))
        time.sleep(1)  # The others end the round if it was complete already.
        before = len(cluster.events("step"))
        time.sleep(seconds)
        meanwhile = len(cluster.events("step")) - before
        cluster.unfreeze(("worker", FROZEN))
        cluster.await_steps(20, FROZEN)
        print(json.dumps({"meanwhile": meanwhile, **check(cluster)}), flush=True)


if __name__ == "__main__":
    main()
