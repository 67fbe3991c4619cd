"""A number on a parameter server, which a worker doubles."""

import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("task", "worker:0", "Job and index of this task.")
flags.DEFINE_string("servers", "localhost:2222", "Addresses of the parameter servers.")
flags.DEFINE_string("workers", "localhost:2223", "Addresses of the workers.")
FLAGS = flags.FLAGS
tf.logging.set_verbosity(tf.logging.ERROR)


def count(target, cluster, index):
    setter = tf.train.replica_device_setter(
        cluster=cluster,
        ps_device="/job:parameter_server/cpu:0",
        worker_device=f"/job:worker/task:{index}",
    )
    with tf.device(setter):
        number = tf.Variable(1, name="number")
        step = tf.train.get_or_create_global_step()
        doubled = tf.assign(number, number * 2)
        with tf.control_dependencies([doubled]):
            train = tf.assign_add(step, 1)
    print(number.device)
    hooks = [tf.train.StopAtStepHook(last_step=10)]
    with tf.train.MonitoredTrainingSession(target, is_chief=index == 0, hooks=hooks) as session:
        while not session.should_stop():
            print(*session.run([train, doubled]))


def main(_):
    job, index = FLAGS.task.split(":")
    cluster = tf.train.ClusterSpec(
        {"parameter_server": FLAGS.servers.split(","), "worker": FLAGS.workers.split(",")}
    )
    server = tf.train.Server(cluster, job_name=job, task_index=int(index))
    if job == "parameter_server":
        server.join()
    else:
        count(server.target, cluster, int(index))


if __name__ == "__main__":
    tf.app.run()
