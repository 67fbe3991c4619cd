"""The version of tf_condacc."""

__version__ = "0.2.0"
