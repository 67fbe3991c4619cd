"""Public path of the device setter; see `tf_condacc.accumulators.placement`."""

from tf_condacc.accumulators.placement import PS_OPS, replica_device_setter

__all__ = ["PS_OPS", "replica_device_setter"]
