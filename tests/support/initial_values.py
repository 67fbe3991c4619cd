"""Initial values of Keras models that are the same in each run."""

import random


def seed_initial_values() -> None:
    """Seeds the generator from which Keras draws the seeds of its initializers.

    ``keras.utils.set_random_seed`` also seeds TensorFlow, which then destroys the eager kernels of
    the process. Those of its own accumulators abort the process in this.
    """
    random.seed(1)
