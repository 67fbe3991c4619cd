"""The code that the example programs share.

* ``rounds`` and ``cluster`` contain the turns of workers and chief, and their threads and sessions.
* ``data`` and ``network`` contain the digits and a classifier; ``text`` and ``skip_gram`` contain
  the words and the model of word vectors.
* ``machines`` simulates machines of different speed. ``sparse_means`` and ``tower_runs`` contain
  the comparisons that two of the programs make.
* ``command_line`` contains the options, ``records`` what trainings record, and ``report``,
  ``pictures`` and ``plotting`` show it.
"""
