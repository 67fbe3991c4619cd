"""Learns word vectors with several workers, through sparse conditional accumulators.

The model is skip-gram with negative sampling, and the text is the language reference in Python's
module `pydoc_data.topics`. The gradient of an embedding has one row for each word of the batch, in
the order of the batch, so that frequent words have several rows. Workers apply such gradients to
one accumulator for each embedding, and a chief takes the means and applies them.

At the end, the same gradients are given to tf_condacc's and to TensorFlow's own accumulator, and
both means are compared with that of NumPy.
"""

import argparse
import contextlib
import itertools
import re
import sys
import threading
from collections import Counter
from pydoc_data.topics import topics

import numpy as np
import pictures  # Imported before TensorFlow, to hide its log.
import tensorflow as tf
from pictures import BLUE, GREEN
from tqdm import tqdm

import tf_condacc

v1 = tf.compat.v1
v1.disable_eager_execution()
WIDTH, WINDOW, NEGATIVES, BATCH_SIZE = 48, 4, 5, 256
SHOWN = "class", "exception", "finally", "function", "import", "integer"


def read_text():
    """Returns the vocabulary, the most frequent words first, and the text as numbers of words."""
    words = re.findall(r"[a-z_][a-z_0-9]+", " ".join(topics.values()).lower())
    vocabulary = [word for word, count in Counter(words).most_common() if count >= 5]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    return vocabulary, np.array([numbers[word] for word in words if word in numbers])


def batches(text, rng):
    """Yields words `[n]` and candidates `[n, 1 + negatives]`: a neighbour, and random words."""
    counts = np.bincount(text)
    # Frequent words are left out at random, and are drawn more often as random words.
    rare = text[rng.random(len(text)) < np.sqrt(1e-3 * len(text) / counts)[text]]
    noise = counts**0.75 / np.sum(counts**0.75)
    while True:
        at = rng.integers(WINDOW, len(rare) - WINDOW, BATCH_SIZE)
        distance = rng.integers(1, WINDOW + 1, BATCH_SIZE) * rng.choice([-1, 1], BATCH_SIZE)
        negatives = rng.choice(len(counts), [BATCH_SIZE, NEGATIVES], p=noise)
        yield rare[at], np.column_stack([rare[at + distance], negatives])


def loss_of(words, candidates, of_words, of_neighbours):
    """Returns the mean cross entropy of telling the neighbours from random words."""
    word, candidate = tf.gather(of_words, words), tf.gather(of_neighbours, candidates)
    scores = tf.reduce_sum(word[:, tf.newaxis] * candidate, axis=-1)
    labels = tf.one_hot(tf.zeros_like(words), 1 + NEGATIVES)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores)
    return tf.reduce_mean(tf.reduce_sum(losses, axis=1))


def train(args, vocabulary, text):
    """Returns a record of the steps, the vectors of all words, and gradients of four batches."""
    v1.set_random_seed(args.seed)
    inputs = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.int64, [None, 1 + NEGATIVES])
    shape, uniform = [len(vocabulary), WIDTH], v1.random_uniform_initializer(-0.01, 0.01)
    variables = [
        v1.get_variable("of_words", shape, initializer=uniform, use_resource=True),
        v1.get_variable("of_neighbours", shape, initializer=uniform, use_resource=True),
    ]
    global_step = v1.train.create_global_step()
    accumulators = [
        tf_condacc.SparseConditionalAccumulator(v.dtype, v.shape, f"{v.op.name}/gradient")
        for v in variables
    ]
    losses = tf_condacc.ConditionalAccumulator(tf.float32, [], "losses")
    tokens = [v1.FIFOQueue(100, tf.int64, [], name=f"tokens_{k}") for k in range(args.workers)]

    def worker_turn(queue):
        # A worker waits for a token, and takes all tokens that it finds. Then it reads the local
        # step, and after that the variables.
        token = queue.dequeue_many(tf.maximum(queue.size(), 1))
        with tf.control_dependencies([token]):
            local_step = global_step.read_value()
        with tf.control_dependencies([local_step]):
            loss = loss_of(*inputs, *variables)
        pairs = zip(accumulators, tf.gradients(loss, variables), strict=True)
        # The gradients are tf.IndexedSlices, whose rows may be in any order and may repeat.
        pushes = [a.apply_indexed_slices_grad(gradient, local_step) for a, gradient in pairs]
        return tf.group(*pushes, losses.apply_grad(loss, local_step))

    required = max(1, args.workers - 1)
    means = [accumulator.take_indexed_slices_grad(required) for accumulator in accumulators]
    pairs = zip(means, variables, strict=True)
    train_op = v1.train.AdagradOptimizer(0.1, 1e-6).apply_gradients(pairs, global_step)
    mean_loss = losses.take_grad(required)
    with tf.control_dependencies([train_op, mean_loss]):
        rows = [tf.size(mean.indices) for mean in means]
        chief = mean_loss, rows, losses.num_dropped(), [queue.enqueue(0) for queue in tokens]
    turns = [worker_turn(queue) for queue in tokens]
    probe = tf.gradients(loss_of(*inputs, *variables), variables)
    start, stop = [queue.enqueue(0) for queue in tokens], [queue.close() for queue in tokens]

    def feeds(k):
        rng = np.random.default_rng([args.seed, k])
        return (dict(zip(inputs, batch, strict=True)) for batch in batches(text, rng))

    def work(k):
        with contextlib.suppress(tf.errors.OutOfRangeError):  # The queue is closed at the end.
            for feed in feeds(k):
                session.run(turns[k], feed)

    record = []
    # The model is too small to benefit from a GPU. A step that waits for a minute fails.
    config = v1.ConfigProto(device_count={"GPU": 0}, operation_timeout_in_ms=60_000)
    with v1.Session(config=config) as session:
        session.run([v1.global_variables_initializer(), start])
        threads = [threading.Thread(target=work, args=[k]) for k in range(args.workers)]
        for thread in threads:
            thread.start()
        try:
            with tqdm(range(args.steps), unit="step", disable=None) as bar:
                for _ in bar:
                    loss, rows, dropped, _ = session.run(chief)
                    record.append((loss, *rows, dropped))
                    bar.set_postfix(loss=f"{loss:.4f}", dropped=dropped, refresh=False)
        finally:  # Ctrl-C ends the workers, too.
            session.run(stop)
            for thread in threads:
                thread.join()
        gradients = [session.run(probe, feed)[0] for feed in itertools.islice(feeds(0), 4)]
        return np.array(record).T, session.run(variables[0]), gradients


def wrong_means(library, gradients):
    """Returns how many rows of an accumulator's mean are not those that NumPy computes."""
    shape = tuple(gradients[0].dense_shape)
    sums, counts, got = np.zeros(shape), np.zeros(shape[0]), np.zeros(shape)
    with tf.Graph().as_default(), v1.Session() as session:
        accumulator = library.SparseConditionalAccumulator(tf.float32, shape)
        for gradient in gradients:
            np.add.at(sums, gradient.indices, gradient.values)
            counts[np.unique(gradient.indices)] += 1
            session.run(accumulator.apply_grad(gradient.indices, gradient.values))
        taken = session.run(accumulator.take_grad(len(gradients)))
    np.add.at(got, taken.indices, taken.values)  # As optimizers do, adds up repeated rows.
    expected = sums / np.maximum(counts, 1)[:, np.newaxis]
    return np.sum(~np.isclose(got, expected, rtol=1e-3, atol=1e-7).all(axis=1))


def draw(record, num_words, path):
    """Draws the loss, and how many rows of the embeddings each step has updated."""
    figure, ((loss, rows),) = pictures.figure("Word vectors", 1, 2, 4.4)
    losses, of_words, of_neighbours, _ = record
    steps = np.arange(1, len(losses) + 1)
    pictures.style(loss, "Training loss", "moving mean of 25 steps", "step", len(steps))
    loss.plot(steps, pictures.moving_mean(losses), color=BLUE, lw=2.2)
    subtitle = f"in each step, of {num_words:,}; moving mean of 25 steps"
    pictures.style(rows, "Rows updated", subtitle, "step", len(steps))
    rows.plot(steps, pictures.moving_mean(of_words), color=BLUE, lw=2.2, label="words")
    rows.plot(steps, pictures.moving_mean(of_neighbours), color=GREEN, lw=2.2, label="neighbours")
    rows.set_ylim(0, num_words)
    pictures.legend(rows)
    figure.savefig(path, format="png")


def main():
    """Trains, prints the nearest words of some words and draws a picture."""
    parser = argparse.ArgumentParser(description="Learns word vectors with several workers.")
    add = parser.add_argument
    add("--steps", type=pictures.positive, default=4000, help="training steps (%(default)s)")
    add("--workers", type=pictures.positive, default=4, help="number of workers (%(default)s)")
    add("--seed", type=int, default=1, help="seed of vectors and batches (%(default)s)")
    add("--output", type=pictures.file, default="word_vectors.png", help="picture (%(default)s)")
    args = parser.parse_args()
    v1.logging.set_verbosity("ERROR")  # TensorFlow's Adagrad logs a warning.
    vocabulary, text = read_text()
    record, vectors, gradients = train(args, vocabulary, text)
    losses, dropped = record[0], int(record[-1][-1])
    print(f"  loss               {losses[:25].mean():.3f} at first, {losses[-25:].mean():.3f} now")
    print(f"  gradients dropped  {dropped}")
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for word in SHOWN:
        nearest = np.argsort(-(directions @ directions[vocabulary.index(word)]))[1:6]
        print(f"  near {word:<13} {', '.join(vocabulary[number] for number in nearest)}")
    for name, library in {"tf_condacc": tf_condacc, "TensorFlow": v1}.items():
        print(f"  wrong means of {name}'s accumulator: {wrong_means(library, gradients)} rows")
    draw(record, len(vocabulary), args.output)
    print(f"  picture            {args.output}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
