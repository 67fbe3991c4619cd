"""The parts of the report: rewritten names, and findings that need manual review."""

from __future__ import annotations

import dataclasses
import enum

from condacc.advice import USE_KERAS2

RUNNER = "condacc run"


class Code(enum.Enum):
    """The kinds of findings: a stable code, and what to do in one sentence."""

    CONTRIB_NAME = (
        "TC101",
        f"Replace it, or run the program unedited with `{RUNNER}`.",
    )
    CONTRIB_IMPORT = (
        "TC102",
        f"tf_upgrade_v2 does not mention it: replace it, or run the program unedited with "
        f"`{RUNNER}`.",
    )
    DYNAMIC_NAME = (
        "TC103",
        "Write the name out, so that it can be rewritten, or change it by hand.",
    )
    ESTIMATOR = (
        "TC201",
        "TensorFlow has had no tf.estimator since 2.16, and tf_upgrade_v2 does not mention it: use "
        "--estimator if tf_condacc.estimator is enough; otherwise install tensorflow-estimator and "
        f"run the program with `{RUNNER}`.",
    )
    PRIVATE_MODULE = (
        "TC301",
        "The installed TensorFlow does not have it under this private path: use the public name, "
        f"or run the program unedited with `{RUNNER}`, which provides some.",
    )
    STAR_IMPORT = (
        "TC302",
        "Names that it binds are not rewritten: import the module, or each name.",
    )
    KERAS_2 = (
        "TC303",
        f"It needs Keras 2: {USE_KERAS2}.",
    )
    WRONG_MODULE = (
        "TC304",
        "There is no module tensorflow.compat.v1.python, which tf_upgrade_v2 --mode SAFETY writes: "
        "remove compat.v1 from the import.",
    )
    EAGER_PROGRAM = (
        "TC305",
        "It fails in eager execution: call tf.compat.v1.disable_v2_behavior() at the beginning of "
        "the program, or build the graph in `with tf.Graph().as_default()`.",
    )
    EXAMPLES = (
        "TC306",
        "TensorFlow 2 has no examples: import input_data and mnist from "
        "tf_condacc.compat.examples.tutorials.mnist, or run the program unedited with "
        f"`{RUNNER}`.",
    )
    NUMPY_1 = (
        "TC307",
        "NumPy 2 lacks it: replace it, for example with `ruff check --select NPY --fix`, install "
        f"numpy<2, or run the program unedited with `{RUNNER}`.",
    )
    OP_TYPE = (
        "TC401",
        "Operations of tf_condacc have other types, such as Condacc>DenseApply, but the same "
        "names: find them by name.",
    )
    ASSIGNED_NAME = (
        "TC402",
        "It is assigned or deleted, not used: patch the name in tf_condacc instead, or remove it.",
    )
    AMBIGUOUS_NAME = (
        "TC403",
        "It may be something else, depending on what runs: rewrite it by hand.",
    )
    OWN_PS_OPS = (
        "TC404",
        "Only the operations in this list are placed: add tf_condacc.PS_OPS to it.",
    )
    SERVER = (
        "TC405",
        "Every task of the cluster needs the operations: add `import tf_condacc` if the program "
        "does not import it elsewhere.",
    )
    TAKEN_NAME = (
        "TC406",
        "The file uses the name tf_condacc for something else: rename that, then run this again.",
    )
    SPLIT_NAME = (
        "TC407",
        "There is a comment between its parts: move the comment, then run this again.",
    )
    LATE_IMPORT = (
        "TC408",
        "Its function imports TensorFlow after another use of tf_condacc: move the import to the "
        "beginning, then run this again.",
    )
    DEVICE_FUNCTION = (
        "TC409",
        "tf.device of TensorFlow 2 accepts no functions: use tf.compat.v1.device if it is one, as "
        "a device setter is.",
    )
    NOT_PREPARED = (
        "TC410",
        "A chief must apply the gradients of each round: use make_session_run_hook, or start the "
        "threads of get_chief_queue_runner.",
    )
    OLD_NOTEBOOK = (
        "TC501",
        "Convert it with `jupyter nbconvert --to notebook --nbformat 4`, then run this again.",
    )
    BAD_CELL = (
        "TC502",
        "The cell was skipped because it is not Python: review it by hand.",
    )

    def __init__(self, code: str, remedy: str) -> None:
        self.code = code
        self.remedy = remedy


@dataclasses.dataclass(frozen=True, order=True)
class Position:
    """A place in a file. Lines, columns and cells of notebooks count from 1."""

    line: int
    column: int
    cell: int | None = None


@dataclasses.dataclass(frozen=True)
class Rewriting:
    """A name that is rewritten."""

    place: Position
    old: str
    new: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that needs manual review.

    Attributes:
        place: Where it is.
        code: The kind of the finding.
        message: What was found.
        name: The name in TensorFlow that was found, without ``tensorflow`` and versions; empty if
            the remedy does not depend on it.
        own_remedy: What to do about this finding; empty if it is what the code says.
    """

    place: Position
    code: Code
    message: str
    name: str = ""
    own_remedy: str = ""

    @property
    def remedy(self) -> str:
        """What to do, in one or two sentences."""
        return self.own_remedy or self.code.remedy


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result for the text of one file: the new text, and what is reported."""

    text: str
    rewritings: tuple[Rewriting, ...] = ()
    findings: tuple[Finding, ...] = ()
