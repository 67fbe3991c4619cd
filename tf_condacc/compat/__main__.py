"""Runs a program for TensorFlow 1: ``condacc run script.py``."""

from tf_condacc.compat._runner.program import main

if __name__ == "__main__":
    main()
