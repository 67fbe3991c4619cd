"""The modules of a program, and what an import of TensorFlow means in them."""

from __future__ import annotations

import ast
import sys
import traceback

import pytest

from condacc.versions import brings_keras2
from tests.support.versions import needs_keras3

V1 = "tensorflow._api.v2.compat.v1"


@pytest.fixture(scope="module")
def sources():
    from tf_condacc.compat._runner import sources

    return sources


@pytest.fixture
def without_copies(sources, monkeypatch):
    """Imports the module that tf.compat.v1 is, instead of the copy that has the public path."""
    monkeypatch.setattr(sources, "_V1", V1)


@pytest.fixture(scope="module")
def names():
    """The names of TensorFlow 1 are installed."""
    from tf_condacc import compat

    with compat.installed():
        yield


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("import tensorflow", "import tensorflow.compat.v1 as tensorflow"),
        ("import os, tensorflow as tf", "import os\nimport tensorflow.compat.v1 as tf"),
        ("from tensorflow import flags", "from tensorflow.compat.v1 import flags"),
        ("from tensorflow import *", "from tensorflow.compat.v1 import *"),
        ("import tensorflow.layers as layers", "import tensorflow.compat.v1.layers as layers"),
        ("from tensorflow.train import Saver", "from tensorflow.compat.v1.train import Saver"),
        (
            "import tensorflow.python.ops",
            "import tensorflow.python.ops\nimport tensorflow.compat.v1 as tensorflow",
        ),
        (
            "try:\n    import tensorflow.contrib.slim\nexcept ImportError:\n    pass",
            "try:\n    import tensorflow.contrib.slim\n"
            "    import tensorflow.compat.v1 as tensorflow\nexcept ImportError:\n    pass",
        ),
        ("from tensorflow.python.ops import math_ops", None),
        ("from . import tensorflow", None),
        ("from .tensorflow import flags", None),
        ("import tensorflow_probability as tfp", None),
        ("import tensorflow.compat.v1 as tf", None),
    ],
)
def test_tensorflow_means_version_1(sources, statement, expected):
    tree = sources._Imports().visit(ast.parse(statement))
    assert ast.unparse(tree) == (expected or statement)


KERAS = "tf_condacc.compat._runner.keras"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("import keras", f"import {KERAS} as keras"),
        ("import keras.backend as K", f"import {KERAS}.backend as K"),
        ("import keras.layers", f"import {KERAS}.layers as keras\nimport {KERAS} as keras"),
        ("from keras import layers", f"from {KERAS} import layers"),
        ("from keras.utils.np_utils import *", f"from {KERAS}.utils.np_utils import *"),
        ("from .keras import layers", "from .keras import layers"),
        ("import keras_tuner", "import keras_tuner"),
    ],
)
def test_keras_is_tf_keras_unless_it_is_keras_3_or_a_module_of_the_program(
    sources, monkeypatch, tmp_path, statement, expected
):
    def compiled():
        return ast.unparse(sources._Imports().visit(ast.parse(statement)))

    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    assert compiled() == expected
    if not brings_keras2():
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")
        assert compiled() == statement
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    (tmp_path / "keras.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert compiled() == statement


IMPORTS = (
    "import tensorflow.contrib.crf as found",
    "import os, tensorflow.contrib.crf.python.ops as found",
    "from tensorflow.contrib import slim, crf as found",
    "from tensorflow.contrib.crf import crf_log_likelihood as found",
    "from tensorflow.contrib.opt import AdamWOptimizer as found",
    "from tensorflow.compat.v1.contrib.image.python.ops import image_ops as found",
    "try:\n    import os\nfinally:\n    from tensorflow.contrib import crf as found",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    from tensorflow.contrib import crf as found",
)
USES = (
    "found.name",
    "found(1)",
    "found[1]",
    "list(found)",
    "isinstance(1, found)",
    "issubclass(int, found)",
    "class Own(found): pass",
)


@pytest.mark.usefixtures("without_copies", "names")
@pytest.mark.parametrize("statement", IMPORTS)
def test_a_name_of_contrib_that_is_missing_fails_at_its_first_use(sources, statement):
    from tf_condacc.compat import MissingNameError

    names = {}
    exec(sources.compile_program(statement, "program.py"), names)
    assert "which is not provided" in repr(names["found"])
    for use in USES:
        with pytest.raises(MissingNameError, match=r"^tf\.contrib\.\S+ is not provided. Instead: "):
            exec(use, names)


@pytest.mark.usefixtures("without_copies", "names")
def test_names_of_contrib_that_are_provided_are_bound_as_they_are(sources):
    names = {}
    statements = (
        "import tensorflow.contrib.opt.python",
        "import tensorflow.contrib.opt as opt",
        "from tensorflow.contrib import opt as same",
        "from tensorflow.contrib.opt import DropStaleGradientOptimizer",
        "import tensorflow.contrib.crf",
    )
    exec(sources.compile_program("\n".join(statements), "program.py"), names)
    assert names["opt"] is names["same"] is names["tensorflow"].contrib.opt
    assert names["DropStaleGradientOptimizer"].__module__.startswith("tf_condacc.")
    with pytest.raises(AttributeError, match=r"tf\.contrib\.crf is not provided"):
        _ = names["tensorflow"].contrib.crf


@pytest.mark.usefixtures("without_copies", "names")
@pytest.mark.parametrize("statement", IMPORTS[:6])
@pytest.mark.parametrize(
    "block",
    [
        "try:\n    {}\nexcept ImportError:\n    found = None",
        "found = None\nimport contextlib\nwith contextlib.suppress(ImportError):\n    {}",
        "try:\n    if True:\n        {}\nexcept Exception:\n    found = None\nelse:\n    1 / 0",
    ],
    ids=["try", "suppress", "nested"],
)
def test_in_try_a_missing_name_of_contrib_stays_an_import_error(sources, statement, block):
    names = {}
    exec(sources.compile_program(block.format(statement), "program.py"), names)
    assert names["found"] is None


@pytest.mark.parametrize(
    ("legacy", "path"),
    [("1", "tensorflow.compat.v1.keras"), pytest.param("0", None, marks=needs_keras3)],
)
def test_keras_is_that_of_version_1_only_if_there_is_one(sources, monkeypatch, legacy, path):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", legacy)
    assert sources._public_path("tensorflow.keras.layers") == (
        f"{path}.layers" if path else "tensorflow.keras.layers"
    )


@pytest.mark.usefixtures("without_copies")
def test_lines_and_columns_are_those_of_the_source(sources, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        '"""Doc."""\nfrom __future__ import annotations\nimport os, tensorflow\n\n1 / 0\n'
    )
    names = {}
    with pytest.raises(ZeroDivisionError) as raised:
        exec(sources.compile_program(path.read_bytes(), str(path)), names)
    entry = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (entry.filename, entry.lineno, entry.line) == (str(path), 5, "1 / 0")
    assert names["__doc__"] == "Doc."
    assert names["tensorflow"].__name__ == V1


@pytest.mark.usefixtures("without_copies")
def test_modules_of_a_program_leave_no_bytecode(sources, tmp_path, monkeypatch):
    package = tmp_path / "legacy_package"
    package.mkdir()
    (package / "__init__.py").write_text("import tensorflow as tf\nfrom . import part\n")
    (package / "part.py").write_text("from tensorflow import flags\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    sources.ProgramFinder(sources.Extent(str(tmp_path))).insert()
    import legacy_package

    assert legacy_package.tf.__name__ == V1
    assert legacy_package.part.flags is legacy_package.tf.flags
    assert [path.name for path in tmp_path.rglob("*.pyc")] == []
    for name in ("legacy_package", "legacy_package.part"):
        del sys.modules[name]
