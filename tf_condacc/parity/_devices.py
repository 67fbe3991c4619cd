"""The logical CPU devices on which strategies with several replicas run."""

from __future__ import annotations

import tensorflow as tf

_REMEDY = (
    "Call tf_condacc.parity.use_logical_cpus({number}) before TensorFlow runs its first operation "
    "in the process, for example at the top of conftest.py. With pytest, the plugin "
    "tf_condacc.parity.pytest_plugin does so."
)


def use_logical_cpus(number: int) -> None:
    """Splits the CPU into logical devices, on which a strategy can have several replicas.

    It must be called before TensorFlow runs its first operation in the process. Later calls have no
    effect if there are enough logical CPUs already.

    Args:
        number: Number of logical CPUs, at least 1.

    Raises:
        ValueError: `number` is less than 1.
        RuntimeError: TensorFlow has run operations already, with fewer logical CPUs.
    """
    if number < 1:
        raise ValueError(f"number of logical CPUs: expected at least 1, got {number}")
    cpu = tf.config.list_physical_devices("CPU")[0]
    configured = tf.config.get_logical_device_configuration(cpu) or []
    if len(configured) >= number:
        return
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(number)]
    try:
        tf.config.set_logical_device_configuration(cpu, logical)
    except RuntimeError:
        require_logical_cpus(number, "use_logical_cpus")


def require_logical_cpus(number: int, user: str) -> list[str]:
    """Returns the names of logical CPUs.

    Raises:
        RuntimeError: There are fewer. The error names the user.
    """
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    if len(devices) < number:
        raise RuntimeError(
            f"{user}: expected at least {number} logical CPUs, got {len(devices)}, and TensorFlow "
            f"has started already. {_REMEDY.format(number=number)}"
        )
    return devices[:number]
