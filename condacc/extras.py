"""The commands that install packages which only some parts of tf_condacc need.

The requirements are those of the extras in pyproject.toml.
"""

INSTALL_ESTIMATOR = "pip install 'tensorflow-estimator==2.15.0'"
INSTALL_LIBCST = "pip install 'libcst==1.9.0'"
