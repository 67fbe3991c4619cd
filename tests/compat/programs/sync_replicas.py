"""Trains with SyncReplicasOptimizer on parameter servers, as programs with flags do."""

import tensorflow as tf

tf.app.flags.DEFINE_string("job_name", "worker", "ps or worker.")
tf.app.flags.DEFINE_integer("task_index", 0, "Index of the task.")
tf.app.flags.DEFINE_string("ps_hosts", "localhost:2222", "Host:port pairs.")
tf.app.flags.DEFINE_string("worker_hosts", "localhost:2223", "Host:port pairs.")
tf.app.flags.DEFINE_integer("steps", 3, "Number of steps.")
FLAGS = tf.app.flags.FLAGS


class ShowAtEnd(tf.train.SessionRunHook):
    """Shows the value of a tensor at the end of the training."""

    def __init__(self, tensor):
        self.tensor = tensor

    def end(self, session):
        print("weights:", session.run(self.tensor).tolist(), flush=True)


def main(_):
    ps_hosts = FLAGS.ps_hosts.split(",")
    worker_hosts = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    setter = tf.train.replica_device_setter(
        worker_device="/job:worker/task:" + str(FLAGS.task_index), cluster=cluster
    )
    with tf.device(setter):
        step = tf.train.get_or_create_global_step()
        weights = tf.get_variable("weights", [2], initializer=tf.zeros_initializer())
        loss = tf.reduce_sum(weights * tf.constant([1.0, 2.0]) * (FLAGS.task_index + 1))
        opt = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(1.0),
            replicas_to_aggregate=len(worker_hosts),
            total_num_replicas=len(worker_hosts),
        )
        train_op = opt.minimize(loss, global_step=step)
    is_chief = FLAGS.task_index == 0
    hooks = [opt.make_session_run_hook(is_chief), tf.train.StopAtStepHook(last_step=FLAGS.steps)]
    if is_chief:
        hooks.append(ShowAtEnd(weights))
    with tf.train.MonitoredTrainingSession(
        master=server.target, is_chief=is_chief, hooks=hooks
    ) as sess:
        while not sess.should_stop():
            sess.run(train_op)


if __name__ == "__main__":
    tf.app.run()
