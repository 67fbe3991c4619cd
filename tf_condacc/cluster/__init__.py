"""Training on a cluster of parameter servers and workers, each in its own process.

A program calls `start` and trains in the `Task` that it returns. The same program runs under
``condacc launch``, under any scheduler that sets ``TF_CONFIG``, and alone.
"""

from tf_condacc.cluster._balancing import GreedyLoadBalancingStrategy, byte_size_load_fn
from tf_condacc.cluster._coordinator import coordinator
from tf_condacc.cluster._task import Task, start

__all__ = ["GreedyLoadBalancingStrategy", "Task", "byte_size_load_fn", "coordinator", "start"]
