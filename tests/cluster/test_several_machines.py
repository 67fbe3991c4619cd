"""What docs/guides/cluster.md says about several machines: Slurm, manifests and checkpoints."""

from __future__ import annotations

import itertools
import json
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import tensorflow as tf
import yaml
from tensorflow.compat import v1

from condacc.tf_config import read
from tests.processes.forked_python import forked_python
from tests.support.waiting import run_program

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guides" / "cluster.md").read_text(encoding="utf-8")

# Stands for Slurm on two nodes, which are addresses of this machine. `srun` is for one step.
_SCONTROL = """#!/bin/bash
[[ "$*" == "show hostnames nodes[2-3]" ]] || exit 2
printf '127.0.0.%d\\n' 2 3
"""
_SRUN = """#!/bin/bash
[[ "$1" == --distribution=block ]] || exit 2
shift
for ((k = 0; k < SLURM_NTASKS; k++)); do SLURM_PROCID=$k "$@" & processes+=($!); done
for process in "${processes[@]}"; do wait "$process" || status=1; done
exit ${status:-0}
"""


def _block(language: str) -> str:
    """Returns the page's only code block in a language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return block


def _job_with_free_ports(count: int) -> str:
    """Returns a job number for which the script chooses free ports."""
    for job in range(os.getpid(), os.getpid() + 200):
        first = 10_000 + job % 200 * 100
        try:
            for port in range(first, first + count):
                socket.create_server(("", port)).close()
        except OSError:
            continue
        return str(job)
    raise AssertionError("no free ports")


@pytest.mark.clusters
def test_the_slurm_script_trains_to_the_end(tmp_path):
    train = tmp_path / "train.py"
    report = "print('task', task.task_type, task.task_id, task.num_worker_replicas, task.is_chief)"
    train.write_text(f"{_block('python')}\n{report}\n")
    python = f'#!/bin/bash\necho "$TF_CONFIG" >>configs\nexec {" ".join(forked_python())} "$@"\n'
    for name, program in {"scontrol": _SCONTROL, "srun": _SRUN, "python": python}.items():
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    job = _job_with_free_ports(4)
    slurm = {"JOB_ID": job, "JOB_NODELIST": "nodes[2-3]", "NTASKS": "4", "NTASKS_PER_NODE": "2"}
    done = run_program(
        ["bash"],
        input=_block("bash"),
        cwd=tmp_path,
        env=os.environ
        | {f"SLURM_{name}": value for name, value in slurm.items()}
        | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # The parameter server ends in `start`, and all workers trained together.
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("task"))
    assert lines == ["task worker 0 3 True", "task worker 1 3 False", "task worker 2 3 False"]
    first = 10_000 + int(job) % 200 * 100
    hosts = ["127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"]
    addresses = [f"{host}:{first + k}" for k, host in enumerate(hosts)]
    configs = [json.loads(line) for line in (tmp_path / "configs").read_text().splitlines()]
    assert len(configs) == 4
    for config in configs:
        assert config["cluster"] == {"ps": addresses[:1], "worker": addresses[1:]}


@pytest.fixture(scope="module")
def manifests() -> list[dict[str, Any]]:
    text = (ROOT / "docs" / "guides" / "kubernetes" / "train.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def test_the_manifests_are_those_of_kubernetes(manifests):
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.30", strict=True)
    wrong = manifests[-1] | {"spec": manifests[-1]["spec"] | {"backofLimit": 1}}
    with pytest.raises(kubernetes_validate.ValidationError, match="backofLimit"):
        kubernetes_validate.validate(wrong, "1.30", strict=True)


def _environment(job: Mapping[str, Any], index: int, cluster: str) -> dict[str, str]:
    """Returns the environment of a pod, as Kubernetes makes it."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    known: dict[str, str] = {}
    for each in container["env"]:
        source = each.get("valueFrom", {})
        if "fieldRef" in source:
            assert "job-completion-index" in source["fieldRef"]["fieldPath"]
            value = str(index)
        elif "configMapKeyRef" in source:
            assert source["configMapKeyRef"] == {"name": "train", "key": "cluster"}
            value = cluster
        else:
            value = re.sub(r"\$\((\w+)\)", lambda name: known[name[1]], each["value"])
        known[each["name"]] = value
    return known


def test_each_pod_is_the_task_that_its_name_says(manifests):
    of_kind = {
        kind: list(each)
        for kind, each in itertools.groupby(manifests, lambda manifest: manifest["kind"])
    }
    (service,), (values,), (policy,) = (
        of_kind[kind] for kind in ("Service", "ConfigMap", "NetworkPolicy")
    )
    tasks = []
    for job in of_kind["Job"]:
        spec, template = job["spec"], job["spec"]["template"]
        assert spec["completions"] == spec["parallelism"]
        assert template["spec"]["subdomain"] == service["metadata"]["name"]
        labels = template["metadata"]["labels"]
        assert labels == service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"]
        for index in range(spec["completions"]):
            environment = _environment(job, index, values["data"]["cluster"])
            task = read(environment["TF_CONFIG"])
            address = f"{job['metadata']['name']}-{index}.{template['spec']['subdomain']}:2222"
            assert task.cluster[task.task_type][task.task_id] == address
            tasks.append((task.task_type, task.task_id))
    assert sorted(tasks) == [("ps", 0), ("worker", 0), ("worker", 1)]


@pytest.mark.parametrize(
    ("saver", "writers"),
    [
        (None, {"/job:ps/task:0", "/job:ps/task:1"}),
        (v1.train.Saver, {"/job:worker/task:0"}),
    ],
    ids=["by default, parameter servers", "without shards, the chief"],
)
def test_who_writes_checkpoints(saver, writers):
    cluster = {"ps": ["a:1", "b:2"], "worker": ["c:3"]}
    setter = v1.train.replica_device_setter(
        cluster=tf.train.ClusterSpec(cluster), worker_device="/job:worker/task:0"
    )
    with tf.Graph().as_default() as graph, v1.device(setter):
        v1.train.get_or_create_global_step()
        v1.get_variable("weight", initializer=5.0)
        v1.train.Scaffold(saver=saver and saver()).finalize()
    devices = {op.device for op in graph.get_operations() if op.type == "SaveV2"}
    assert {device.removesuffix("/device:CPU:0") for device in devices} == writers
