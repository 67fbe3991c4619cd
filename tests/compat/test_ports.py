"""Programs that are ported as docs/guides/migration.md says, and run without the runner."""

from __future__ import annotations

import pytest

from condacc.migrate._program import migrate_text
from tests.compat.processes import RUNNER, run
from tests.compat.test_runner import PROGRAMS
from tests.migrate.test_after_tf_upgrade import upgrade
from tests.processes.forked_python import forked_python

V1_BEHAVIOUR = "tf.compat.v1.disable_v2_behavior()"
INSTALL = "from tf_condacc import compat; compat.install()"
KERAS2 = "TF_USE_LEGACY_KERAS=1"


@pytest.mark.programs
@pytest.mark.parametrize(
    ("name", "advised"),
    [("clicks", [V1_BEHAVIOUR, INSTALL]), ("towers", [KERAS2])],
)
def test_a_port_prints_what_the_program_prints_under_the_runner(name, advised, tmp_path):
    program = PROGRAMS / "ports" / f"{name}.py"
    outcome = migrate_text(upgrade(program.read_text(encoding="utf-8")), with_estimator=True)
    remedies = " ".join(finding.remedy for finding in outcome.findings)
    assert [each for each in (V1_BEHAVIOUR, INSTALL, KERAS2) if each in remedies] == advised
    lines = [each for each in advised if each != KERAS2]
    text = outcome.text.replace(
        "import tensorflow as tf", "\n".join(["import tensorflow as tf", *lines]), 1
    )
    port = tmp_path / "port.py"
    port.write_text(text, encoding="utf-8")
    before = run(*forked_python(), *RUNNER[1:], "--quiet", program, cwd=tmp_path)
    variables = {"TF_USE_LEGACY_KERAS": "1"} if KERAS2 in advised else {}
    after = run(*forked_python(), port, cwd=tmp_path, variables=variables)
    assert (before.returncode, after.returncode) == (0, 0), (
        before.stderr[-2000:] + after.stderr[-2000:]
    )
    assert before.stdout.count("\n") > 1
    assert after.stdout == before.stdout
