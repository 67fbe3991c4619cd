"""A chief and two workers train a linear model through a conditional accumulator."""

import threading

import tensorflow as tf

WORKERS, STEPS = 2, 4
BATCHES = [([[1.0, 0.0], [0.0, 1.0]], [8.0, 16.0]), ([[1.0, 1.0], [1.0, -1.0]], [24.0, -8.0])]


class Task:
    """The graph of one task; variables, accumulators and queues are shared by their names."""

    def __init__(self, target, batch):
        with tf.Graph().as_default():
            x, y = tf.constant(batch[0]), tf.constant(batch[1])
            weights = tf.get_variable("weights", [2], initializer=tf.zeros_initializer())
            step = tf.train.get_or_create_global_step()
            tokens = [
                tf.FIFOQueue(1, [tf.int64], [[]], shared_name=f"tokens_{number}")
                for number in range(WORKERS)
            ]
            accumulator = tf.ConditionalAccumulator(
                tf.float32, shape=[2], shared_name=weights.name + "/grad_accum"
            )

            self.next_step = [queue.dequeue() for queue in tokens]
            self.local_step = tf.placeholder(tf.int64, [])
            loss = tf.reduce_mean(tf.square(tf.reduce_sum(x * weights, 1) - y)) / 2
            gradient = tf.gradients(loss, weights)[0]
            self.push = accumulator.apply_grad(gradient, self.local_step)
            self.waiting = accumulator.num_accumulated()

            optimizer = tf.train.GradientDescentOptimizer(0.5)
            mean = accumulator.take_grad(WORKERS)
            self.update = optimizer.apply_gradients([(mean, weights)], global_step=step)
            self.release = [queue.enqueue(step) for queue in tokens]
            self.values = [step, weights]
            self.initialize = tf.global_variables_initializer()
            self.session = tf.Session(target)


def work(task, number):
    for _ in range(STEPS):
        local_step = task.session.run(task.next_step[number])
        task.session.run(task.push, {task.local_step: local_step})


def main():
    server = tf.train.Server.create_local_server()
    chief = Task(server.target, BATCHES[0])
    chief.session.run(chief.initialize)
    workers = [Task(server.target, batch) for batch in BATCHES]
    threads = [
        threading.Thread(target=work, args=(task, number)) for number, task in enumerate(workers)
    ]
    for thread in threads:
        thread.start()
    for _ in range(STEPS):
        chief.session.run(chief.release)
        chief.session.run(chief.update)
    for thread in threads:
        thread.join()

    first = workers[0]
    first.session.run(first.push, {first.local_step: STEPS - 1})
    print(f"stale gradients accumulated: {first.session.run(first.waiting)}")
    first.session.run(first.push, {first.local_step: STEPS})
    print(f"gradients accumulated: {first.session.run(first.waiting)}")
    step, weights = chief.session.run(chief.values)
    print(f"step {step}, weights {weights.tolist()}")


if __name__ == "__main__":
    main()
