"""Runs a program for TensorFlow 1: ``python -m tf_condacc.compat script.py``."""

from tf_condacc.compat.runner._program import main

if __name__ == "__main__":
    main()
