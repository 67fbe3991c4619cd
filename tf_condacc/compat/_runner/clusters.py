"""What programs of TensorFlow 1 expect of clusters, where TensorFlow 2 is different or slow."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from tensorflow.compat import v1

from tf_condacc._accumulators.placement import noting_cluster
from tf_condacc.compat._changes import replace_everywhere

_POLL_SECS = 1


def poll_for_chiefs() -> None:
    """Makes a worker look for its chief each second, where the program gives no other time.

    TensorFlow's default is 30 seconds, in which a short training ends without the worker.
    """
    for kind in (v1.train.SessionManager, v1.train.Supervisor):
        initialize = inspect.unwrap(kind.__init__)
        spec = inspect.getfullargspec(initialize)
        defaults = list(spec.defaults or ())
        defaults[spec.args.index("recovery_wait_secs") - len(spec.args)] = _POLL_SECS
        initialize.__defaults__ = tuple(defaults)


def share_variables() -> None:
    """Makes device setters place variables in a cluster that has not the job of their servers, too.

    They set no device then. TensorFlow 1.15 has operations without a device in the first task of
    the first job by name, which all workers share. TensorFlow 2 has them in the task of each
    session, where a worker waits forever until its chief has initialized them.

    The device functions also note the cluster, whose workers synchronous training waits for.
    """
    original = v1.train.replica_device_setter
    signature = inspect.signature(original)

    @functools.wraps(original)
    def replica_device_setter(*args: Any, **kwargs: Any) -> Any:
        setter = original(*args, **kwargs)
        arguments = signature.bind(*args, **kwargs).arguments
        if setter is not None or arguments.get("cluster") is None:
            return noting_cluster(setter, arguments.get("cluster"))
        jobs = v1.train.ClusterSpec(arguments["cluster"]).as_dict()
        if not jobs:
            return None
        arguments["ps_device"] = f"/job:{min(jobs)}"
        arguments["ps_strategy"] = lambda _: 0
        arguments.setdefault("worker_device", "/job:worker" if "worker" in jobs else "")
        return noting_cluster(original(**arguments), arguments["cluster"])

    replace_everywhere([(original, replica_device_setter)])
