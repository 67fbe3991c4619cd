"""``tf.contrib``: what this package provides of it, and what to use instead of the rest."""
