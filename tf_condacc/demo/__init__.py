"""The demo, ``python -m tf_condacc.demo``, which is the program `tf_condacc.examples.digits`."""
