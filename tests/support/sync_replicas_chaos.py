"""Kills and stops the processes of a cluster at random, and checks what was trained.

    python sync_replicas_chaos.py SECONDS SEED

Prints what was done, as JSON, and fails if a round was not the sum of one gradient from each slot
or the weights are not what the logs say.
"""

from __future__ import annotations

import json
import random
import sys
import time

from sync_replicas_processes import NUM_PS, Cluster, check, running_cluster

REPLICAS, TAKEOVER_SECS = 2, 0.3


def disturb(cluster: Cluster, seconds: float, chance: random.Random) -> dict[str, int]:
    """Kills and stops processes for some time; those that were killed are started again."""
    log = cluster.open_log()
    counts = {"kills": 0, "stops": 0, "chiefs": 0, "servers": 0}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kind = chance.random()
        who = ("worker", chance.choice([1, 2]))
        if kind < 0.15:
            who = ("worker", 0)
        elif kind < 0.25:
            who = ("ps", chance.randrange(NUM_PS))
        time.sleep(chance.random() * 0.4)
        kills = chance.random() < 0.5
        log.add("kill" if kills else "stop", who=f"{who[0]} {who[1]}")
        if kills:
            cluster.kill(who)
            time.sleep(chance.random() * 0.5)
            cluster.start(who)
            counts["kills"] += 1
            counts["chiefs"] += who == ("worker", 0)
            counts["servers"] += who[0] == "ps"
            cluster.await_steps(5)
        else:
            cluster.freeze(who)
            time.sleep(chance.random() * 0.8)
            cluster.unfreeze(who)
            counts["stops"] += 1
        cluster.check_running()
    return counts


def main() -> None:
    seconds, seed = float(sys.argv[1]), int(sys.argv[2])
    with running_cluster(REPLICAS, TAKEOVER_SECS) as cluster:
        done = disturb(cluster, seconds, random.Random(seed))
        cluster.await_steps(20)
        print(json.dumps({"seed": seed, **done, **check(cluster)}), flush=True)


if __name__ == "__main__":
    main()
