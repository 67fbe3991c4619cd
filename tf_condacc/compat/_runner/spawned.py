"""The program's main module in processes that multiprocessing starts anew.

Such a process imports the module that the specification of ``__main__`` names, which is this one.
"""

from tf_condacc.compat._runner.program import run_spawned

if __name__ == "__mp_main__":
    run_spawned(globals())
