"""The MNIST tutorial of TensorFlow 1: its data, read from local files, and its model."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import struct
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compat import v1

from tests.compat.processes import RUNNER, run
from tf_condacc.compat.examples.tutorials.mnist import input_data, mnist

TRAIN, TEST = 6, 3
EMPTY = np.zeros([0, 2, 3, 1], np.uint8), np.zeros(0)
NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _contents():
    """Yields the four files. Pixel i of an image is 5 * i + its label, and labels count from 0."""
    for count in (TRAIN, TEST):
        pixels = np.add.outer(np.arange(count), 5 * np.arange(6)).astype(np.uint8)
        yield struct.pack(">4I", 2051, count, 2, 3) + pixels.tobytes()
        yield struct.pack(">2I", 2049, count) + bytes(range(count))


def _write(folder, is_plain=lambda name: False):
    folder.mkdir(exist_ok=True)
    for name, content in zip(NAMES, _contents(), strict=True):
        if is_plain(name):
            (folder / name.removesuffix(".gz")).write_bytes(content)
        else:
            (folder / name).write_bytes(gzip.compress(content, mtime=0))
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files, in a place from which nothing is downloaded."""
    monkeypatch.setenv("TF_CONDACC_MNIST_URL", "file:///nowhere")
    return _write(tmp_path / "data")


@pytest.mark.parametrize(
    "is_plain", [lambda name: False, lambda name: True, lambda name: "images" in name]
)
def test_files_are_read_plain_and_compressed(tmp_path, is_plain):
    data = input_data.read_data_sets(str(_write(tmp_path / "data", is_plain)), validation_size=2)
    assert [part.num_examples for part in data] == [4, 2, 3]
    assert data.validation.labels.tolist() == [0, 1]
    assert data.test.images.dtype == np.float32
    # The original multiplies by the inverse of 255, in float32.
    expected = np.array([2, 7, 12, 17, 22, 27], np.float32) * np.float32(1 / 255)
    np.testing.assert_array_equal(data.train.images[0], expected)


def test_pixels_and_labels_have_the_form_that_is_asked_for(folder):
    data = input_data.read_data_sets(
        str(folder), one_hot=True, dtype=tf.uint8, reshape=False, validation_size=0
    )
    assert data.train.images.shape == (6, 2, 3, 1) and data.train.images.dtype == np.uint8
    assert data.train.labels.shape == (6, 10) and data.train.labels.dtype == np.float64
    assert data.train.labels.argmax(1).tolist() == list(range(6))
    assert data.validation.num_examples == 0


def test_batches_go_through_all_examples_in_the_order_that_the_original_seeds(folder):
    def batches(*sizes, seed=None):
        data = input_data.read_data_sets(str(folder), validation_size=0, seed=seed).train
        found = [data.next_batch(size)[1].tolist() for size in sizes]
        assert data.epochs_completed == (sum(sizes) - 1) // 6
        return sum(found, [])

    def permutations(seed):
        order, made = np.random.RandomState(seed), np.arange(6)
        while True:
            order.shuffle(indices := np.arange(6))
            made = made[indices]
            yield from made.tolist()

    def first(count, seed):
        return list(itertools.islice(permutations(seed), count))

    assert batches(4, 2, 4, 4, seed=7) == first(14, 7)
    with tf.Graph().as_default():
        v1.set_random_seed(11)
        assert batches(6) == first(6, 11)
        assert batches(6, seed=7) == first(6, 7)


def test_batches_keep_the_order_of_the_files_without_shuffling(folder):
    data = input_data.read_data_sets(str(folder), validation_size=0).train
    batches = [data.next_batch(4, shuffle=False)[1].tolist() for _ in range(3)]
    assert batches == [[0, 1, 2, 3], [4, 5, 0, 1], [2, 3, 4, 5]]
    images, labels = data.next_batch(3)
    np.testing.assert_array_equal(images[:, 0], labels * np.float32(1 / 255))


@pytest.mark.parametrize(("one_hot", "label"), [(False, 0), (True, [1] + [0] * 9)])
def test_fake_data_needs_no_files(one_hot, label):
    data = input_data.read_data_sets("nowhere", fake_data=True, one_hot=one_hot)
    assert [part.num_examples for part in data] == [10_000] * 3
    for fake_data in (True, False):
        assert data.train.next_batch(2, fake_data) == ([[1] * 784] * 2, [label] * 2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda x: input_data.read_data_sets(x, validation_size=7), ValueError, "0 and 6. Rec.*7"),
        (lambda x: input_data.DataSet(*EMPTY, dtype=tf.int32), TypeError, "tf.int32, expected uin"),
        (
            lambda x: input_data.DataSet(np.zeros([2, 6]), np.zeros(2)),
            ValueError,
            r"got .*\(2, 6\)",
        ),
        (lambda x: input_data.DataSet(EMPTY[0], [1]), ValueError, "images.shape: .*labels.shape"),
        (lambda x: input_data.load_dataset("iris"), ValueError, "got 'iris'"),
    ],
)
def test_wrong_arguments_are_refused(folder, make, error, message):
    with pytest.raises(error, match=message):
        make(str(folder))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (next(_contents())[:-1], "has 35 bytes of data, and its header says 36, of .*6, 2, 3"),
        (next(_contents())[:9], "ends within its header"),
        (b"<html>", "Invalid magic number 1013478509 in MNIST image file"),
        (gzip.compress(next(_contents()), mtime=0)[:-9], "is damaged .*: remove it"),
    ],
    ids=["size", "header", "format", "gzip"],
)
def test_a_damaged_file_is_named(folder, content, message):
    (folder / NAMES[0]).write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        input_data.read_data_sets(str(folder))
    assert NAMES[0] in str(raised.value)


def test_functions_of_the_reader_take_open_files(folder):
    with open(folder / NAMES[2], "rb") as file:
        assert input_data.extract_images(file).shape == (3, 2, 3, 1)
    with open(folder / NAMES[3], "rb") as file:
        assert input_data.extract_labels(file, one_hot=True, num_classes=4).shape == (3, 4)


def test_other_data_in_the_same_format_is_downloaded_from_the_address_of_the_program(
    tmp_path, capsys
):
    source = _write(tmp_path / "source").as_uri() + "/"
    target = tmp_path / "new" / "data"
    for _ in range(2):
        data = input_data.read_data_sets(str(target), validation_size=1, source_url=source)
        assert data.train.num_examples == 5
    assert sorted(path.name for path in target.iterdir()) == sorted(NAMES)
    assert capsys.readouterr().out.count("Successfully downloaded") == 4


def test_the_mirror_of_mnist_is_set_by_the_environment_and_checked(tmp_path, monkeypatch):
    source, target = _write(tmp_path / "source"), tmp_path / "data"
    monkeypatch.setenv("TF_CONDACC_MNIST_URL", source.as_uri())
    with pytest.raises(OSError, match=r"is not the file of MNIST: SHA-256 \w{64}, not 440fcabf"):
        input_data.read_data_sets(str(target))
    assert not target.exists()
    for name in NAMES:
        digest = hashlib.sha256((source / name).read_bytes()).hexdigest()
        monkeypatch.setitem(input_data._SHA256, name.removesuffix(".gz"), digest)
    assert input_data.read_data_sets(str(target), validation_size=0).test.num_examples == 3
    monkeypatch.chdir(tmp_path)
    (tmp_path / "MNIST-data").symlink_to(target)
    with pytest.raises(ValueError, match="between 0 and 6"):  # It has 5000 for validation.
        input_data.load_dataset("mnist")


def test_what_is_no_file_of_gzip_is_not_kept(tmp_path):
    page = tmp_path / "page.gz"
    page.write_text("<html>")
    with pytest.raises(OSError, match="page.gz is not a gzip file"):
        input_data.maybe_download("data.gz", str(tmp_path / "data"), page.as_uri())
    assert not (tmp_path / "data").exists()


def test_a_missing_file_says_which_four_files_to_put_where(folder):
    (folder / NAMES[1]).unlink()
    with pytest.raises(OSError) as raised:
        input_data.read_data_sets(str(folder))
    text = str(raised.value)
    assert f"{NAMES[1]} is not in the folder {folder}" in text
    assert f"these four files into {folder}, with or without .gz: {', '.join(NAMES)}" in text
    assert "TF_CONDACC_MNIST_URL" in text


def test_the_model_of_the_tutorial_trains():
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        images, labels = tf.eye(10, mnist.IMAGE_PIXELS), tf.range(10)
        logits = mnist.inference(images, 32, 16)
        loss = mnist.loss(logits, labels)
        train, correct = mnist.training(loss, 0.5), mnist.evaluation(logits, labels)
        names = [variable.op.name for variable in v1.trainable_variables()]
        session.run(v1.global_variables_initializer())
        losses = [session.run([loss, train])[0] for _ in range(300)]
        assert session.run(correct) == 10
        [step] = [each for each in v1.global_variables() if each.op.name == "global_step"]
        assert session.run(step) == 300
    assert losses[-1] < losses[0] / 2
    scopes = ("hidden1", "hidden2", "softmax_linear")
    assert names == [f"{scope}/{name}" for scope in scopes for name in ("weights", "biases")]


@pytest.mark.programs
def test_a_program_of_the_tutorial_runs_unedited(folder, tmp_path):
    program = tmp_path / "softmax.py"
    program.write_text(
        "from tensorflow.examples.tutorials.mnist import input_data\n"
        "import tensorflow as tf\n"
        "import tensorflow.contrib.learn as learn\n"
        f"data = input_data.read_data_sets({str(folder)!r}, one_hot=True, validation_size=2)\n"
        "x, y = (tf.placeholder(tf.float32, [None, size]) for size in (6, 10))\n"
        "logits = tf.matmul(x, tf.Variable(tf.zeros([6, 10])))\n"
        "loss = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits)\n"
        "train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(loss))\n"
        "with tf.Session() as session:\n"
        "    session.run(tf.global_variables_initializer())\n"
        "    images, labels = data.train.next_batch(3)\n"
        "    session.run(train, {x: images, y: labels})\n"
        "print(learn.datasets.mnist.read_data_sets is input_data.read_data_sets)\n"
    )
    ended = run(sys.executable, *RUNNER[1:], "--quiet", program)
    assert ended.stdout.splitlines()[-1:] == ["True"], ended.stderr[-2000:]
