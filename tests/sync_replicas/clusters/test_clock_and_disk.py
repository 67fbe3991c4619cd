"""Tests of training while the clocks of all processes jump, and while a server's disk is full."""

from __future__ import annotations

import os
import resource
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.processes.isolated import isolated
from tests.processes.preloaded import needs_preloaded, preloaded
from tests.support.waiting import PATIENCE_SECS
from tests.sync_replicas.clusters import processes

pytestmark = pytest.mark.clusters
CHIEF = ("worker", 0)
DAY = 24 * 60 * 60
CHECKPOINT_BYTES = 16 * 2**20

v1 = tf.compat.v1

# The time of day is that of the system plus an offset, which a file contains. Deadlines of waits
# by the time of day are moved back, because the system waits by its own time. CLOCK_MONOTONIC
# stays as it is, as on a machine whose clock is set.
_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long* offset_secs;

static long long offset(void) {
  if (!offset_secs) {
    int file = open(getenv("CONDACC_CLOCK_OFFSET"), O_RDONLY);
    offset_secs = mmap(0, sizeof *offset_secs, PROT_READ, MAP_SHARED, file, 0);
    close(file);
  }
  return *offset_secs;
}

static struct timespec real(const struct timespec* deadline) {
  struct timespec moved = *deadline;
  if (moved.tv_sec > 500000000) moved.tv_sec -= offset();  // Monotonic time is far smaller.
  return moved;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*next)(clockid_t, struct timespec*) = 0;
  if (!next) next = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int status = next(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += offset();
  return status;
}

time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval* result, void* zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  result->tv_sec = now.tv_sec;
  result->tv_usec = now.tv_nsec / 1000;
  return 0;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* deadline) {
  static int (*next)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*) = 0;
  struct timespec moved = real(deadline);
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  return next(condition, mutex, clock, &moved);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const struct timespec* deadline) {
  static int (*next)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*) = 0;
  struct timespec moved = real(deadline);
  if (!next) *(void**)&next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  return next(condition, mutex, &moved);
}

long syscall(long number, ...) {
  static long (*next)(long, ...) = 0;
  va_list list;
  long a[6];
  struct timespec moved;
  if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  va_start(list, number);
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && a[3] && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET &&
      (a[1] & FUTEX_CLOCK_REALTIME)) {
    moved = real((struct timespec*)a[3]);
    a[3] = (long)&moved;
  }
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
"""


def _clock(folder: Path) -> dict[str, str]:
    """Returns the environment of processes whose clock jumps."""
    path = folder / "offset"
    path.write_bytes(struct.pack("q", 0))
    return preloaded(folder, _CLOCK, CONDACC_CLOCK_OFFSET=str(path))


def _jump(secs: int) -> None:
    with open(os.environ["CONDACC_CLOCK_OFFSET"], "r+b") as file:
        file.write(struct.pack("q", secs))


def _offset() -> tuple[float, float]:
    """Returns bounds of the difference between the time of day and the monotonic clock."""
    before = time.clock_gettime(time.CLOCK_MONOTONIC)
    now = time.clock_gettime(time.CLOCK_REALTIME)
    return now - time.clock_gettime(time.CLOCK_MONOTONIC), now - before


@pytest.mark.long
@isolated(_clock)
@needs_preloaded
def test_training_goes_on_while_the_clocks_jump(tmp_path):
    """Nothing waits by the time of day: no worker is missed, and no slot is taken over."""
    _jump(0)
    least, most = _offset()
    with processes.Cluster(tmp_path, 3, takeover_secs=PATIENCE_SECS) as cluster:
        cluster.start_all()
        cluster.await_steps(5, 0, 1, 2)
        for secs in (DAY, -30, 3600, -DAY, 0):
            _jump(secs)
            low, high = _offset()
            assert low - 10 < most + secs and least + secs < high + 10
            cluster.await_steps(5, 0, 1, 2)
        assert processes.check(cluster)["takeovers"] == 0
        assert "never seen" not in cluster.messages() and "waits" not in cluster.messages()


class ClusterOfLargeCheckpoints(processes.Cluster):
    """A cluster whose checkpoints are far larger than all other files."""

    def model(self, task: int, *args: Any, **arguments: Any) -> Any:
        model = super().model(task, *args, **arguments)
        with model.graph.as_default(), v1.device("/job:ps/task:0"):
            v1.get_variable(
                "ballast",
                [CHECKPOINT_BYTES // 8],
                tf.float64,
                v1.zeros_initializer(),
                trainable=False,
            )
        return model


@isolated(alone=True)
@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.long)])
def test_training_resumes_from_the_last_whole_checkpoint_when_the_disk_was_full(tmp_path, rounds):
    """A limit on the size of files stands for a full disk: a checkpoint is written in part."""
    with ClusterOfLargeCheckpoints(tmp_path, 2, None) as cluster:
        cluster.start_all()
        for _ in range(rounds):
            number = _last_step(tmp_path)
            cluster.await_that(lambda n=number: _last_step(tmp_path) > n, "a checkpoint")
            _limit_files_of_server(cluster, CHECKPOINT_BYTES // 2)
            # The error of such a file is OutOfRange, with which a monitored session ends as after
            # its data: without an error, and so for all workers, unless it then tries to save a
            # later step.
            status, others = _end_of_chief(cluster), [("worker", 1), ("worker", 2)]
            if status == 0:
                assert cluster.await_end(*others) == dict.fromkeys(others, 0)
            else:
                assert "File too large" in cluster.messages()
            last = tf.train.latest_checkpoint(tmp_path)
            assert last is not None
            _limit_files_of_server(cluster, resource.RLIM_INFINITY)
            cluster.start(CHIEF, *([] if status else others))
            cluster.await_steps(3, *range(3))
            opened = [event for event in cluster.events("restored")][-1]
            weights = tf.train.load_variable(last, "sync_replicas_w")
            assert opened["weights"]["sync_replicas_w"] == float(weights[0]) > 0
        processes.check(cluster)


def _last_step(folder: Path) -> int:
    """Returns the step of the last checkpoint that is whole; 0 if there is none."""
    last = tf.train.latest_checkpoint(str(folder))
    return int(tf.train.load_variable(last, "global_step")) if last else 0


def _limit_files_of_server(cluster: processes.Cluster, size: int) -> None:
    """Limits the files of the parameter server that writes the values of checkpoints."""
    limits = size, resource.RLIM_INFINITY
    resource.prlimit(cluster.running["ps", 0], resource.RLIMIT_FSIZE, limits)


def _end_of_chief(cluster: processes.Cluster) -> int:
    return cluster.await_end(CHIEF)[CHIEF]
