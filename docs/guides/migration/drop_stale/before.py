"""A slow and a fast worker train asynchronously; gradients that are too stale are dropped."""

import threading

import tensorflow as tf

STALENESS = 2


class Worker:
    """The graph of one worker; variables and queues are shared by their names."""

    def __init__(self, target, is_slow):
        with tf.Graph().as_default():
            weights = tf.get_variable("weights", initializer=tf.constant([64.0, 128.0]))
            step = tf.train.get_or_create_global_step()
            loss = tf.reduce_sum(tf.square(weights)) / 2
            optimizer = tf.contrib.opt.DropStaleGradientOptimizer(
                tf.train.GradientDescentOptimizer(0.5), STALENESS
            )
            ((gradient, _),) = optimizer.compute_gradients(loss)
            if is_slow:
                gradient = self.wait_with(gradient)
            self.train = optimizer.apply_gradients([(gradient, weights)], global_step=step)
            self.values = [step, weights]
            self.initialize = tf.global_variables_initializer()
            self.session = tf.Session(target)

    def wait_with(self, gradient):
        """Returns the gradient, which is ready when `may_go_on` has been run."""
        begun = tf.FIFOQueue(1, [tf.bool], [[]], shared_name="begun")
        go_on = tf.FIFOQueue(1, [tf.bool], [[]], shared_name="go_on")
        self.has_begun, self.may_go_on = begun.dequeue(), go_on.enqueue(True)
        with tf.control_dependencies([gradient]):
            begin = begun.enqueue(True)
        with tf.control_dependencies([begin]):
            end = go_on.dequeue()
        with tf.control_dependencies([end]):
            return tf.identity(gradient)


def main():
    server = tf.train.Server.create_local_server()
    fast, slow = Worker(server.target, is_slow=False), Worker(server.target, is_slow=True)
    fast.session.run(fast.initialize)
    for fast_updates in (2, 3):
        late = threading.Thread(target=slow.session.run, args=(slow.train,))
        late.start()
        slow.session.run(slow.has_begun)
        for _ in range(fast_updates):
            fast.session.run(fast.train)
        slow.session.run(slow.may_go_on)
        late.join()
        step, weights = fast.session.run(fast.values)
        print(f"step {step}, weights {weights.tolist()}")
    drops = fast.session.run(fast.train)
    step, weights = fast.session.run(fast.values)
    print(f"step {step}, weights {weights.tolist()}, {int(drops)} dropped")


if __name__ == "__main__":
    main()
