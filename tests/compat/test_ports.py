"""Programs that are ported as docs/guides/migration.md says, and run without the runner."""

from __future__ import annotations

import sys

import pytest

from condacc.migrate._program import migrate_text
from tests.compat.processes import RUNNER, run
from tests.compat.test_runner import PROGRAMS
from tests.migrate.test_after_tf_upgrade import upgrade
from tests.processes.forked_python import forked_python
from tests.support.waiting import PATIENCE_SECS

V1_BEHAVIOUR = "tf.compat.v1.disable_v2_behavior()"
INSTALL = "from tf_condacc import compat; compat.install()"
KERAS2 = "TF_USE_LEGACY_KERAS=1"
EXAMPLES = "tf_condacc.compat.examples.tutorials.mnist"
# Commands that start a program as a cluster, with the errors of its tasks in a file, and its flags.
CLUSTERS = {
    "counter": (
        [sys.executable, "-m", "condacc", "launch", "--ps=1", "--workers=1", "--end-secs=0"]
        + [f"--grace-secs={PATIENCE_SECS}", "--jobs=parameter_server,worker", "--"]
        + ["sh", "-c", 'exec "$@" 2>> errors', "task"],
        ["--task={job}:{index}", "--servers={ps}", "--workers={workers}"],
    )
}


@pytest.mark.programs
@pytest.mark.parametrize(
    ("name", "advised"),
    [
        ("clicks", [V1_BEHAVIOUR, INSTALL]),
        ("counter", [V1_BEHAVIOUR]),
        ("curve", [V1_BEHAVIOUR, INSTALL, KERAS2]),
        ("layers", [V1_BEHAVIOUR, KERAS2]),
        ("softmax", [V1_BEHAVIOUR, EXAMPLES]),
        ("towers", [KERAS2]),
    ],
)
def test_a_port_prints_what_the_program_prints_under_the_runner(name, advised, tmp_path):
    program = PROGRAMS / "ports" / f"{name}.py"
    outcome = migrate_text(upgrade(program.read_text(encoding="utf-8")), with_estimator=True)
    remedies = " ".join(finding.remedy for finding in outcome.findings)
    found = [each for each in (V1_BEHAVIOUR, INSTALL, KERAS2, EXAMPLES) if each in remedies]
    assert found == advised
    lines = [each for each in advised if each in (V1_BEHAVIOUR, INSTALL)]
    text = outcome.text.replace(
        "import tensorflow as tf", "\n".join(["import tensorflow as tf", *lines]), 1
    )
    if EXAMPLES in advised:
        text = text.replace("tensorflow.examples.tutorials.mnist", EXAMPLES)
    port = tmp_path / "port.py"
    port.write_text(text, encoding="utf-8")
    launch, flags = CLUSTERS.get(name, ([], []))
    runner = [*launch, *forked_python(), *RUNNER[1:], "--quiet"]
    before = run(*runner, program, *flags, cwd=tmp_path)
    variables = {"TF_USE_LEGACY_KERAS": "1"} if KERAS2 in advised else {}
    command = [*launch, *forked_python(), port, *flags]
    after = run(*command, cwd=tmp_path, variables=variables)
    assert (before.returncode, after.returncode) == (0, 0), (
        before.stderr[-2000:] + after.stderr[-2000:]
    )
    assert before.stdout.count("\n") > 1
    assert after.stdout == before.stdout
