"""The data of the MNIST tutorial of TensorFlow 1, and its reader.

``tensorflow.contrib.learn.datasets`` has the same functions. The reader takes the four idx files
from a folder, plain or compressed by gzip, and downloads those that are missing. The files of
another data set in the same format, such as Fashion-MNIST, do as well.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import secrets
import struct
import urllib.request
import zlib
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

__all__ = [
    "DEFAULT_SOURCE_URL",
    "DataSet",
    "Datasets",
    "dense_to_one_hot",
    "extract_images",
    "extract_labels",
    "load_dataset",
    "load_mnist",
    "maybe_download",
    "read_data_sets",
]

DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
# The environment variable with an address that replaces the default one.
_SOURCE_VARIABLE = "TF_CONDACC_MNIST_URL"
_TIMEOUT_SECS = 60.0

# The four files, with the SHA-256 of MNIST's own, compressed by gzip.
_SHA256 = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
_IMAGES_MAGIC, _LABELS_MAGIC = 2051, 2049
_GZIP_MAGIC = b"\x1f\x8b"
_NUM_FAKE_EXAMPLES, _NUM_FAKE_PIXELS, _NUM_CLASSES = 10_000, 784, 10


class DataSet:
    """Images and labels, in batches of a random order. The original has the same name.

    As in the original, the order comes from NumPy's global generator, which the constructor seeds:
    with `seed`, or with the seed of the graph, or else at random.
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = tf.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        """Creates a data set.

        Args:
            images: [examples, rows, columns, 1] uint8.
            labels: [examples] or [examples, classes].
            fake_data: Whether all batches are fake, for tests of a program. The images and labels
                are not used then.
            one_hot: Whether fake labels are vectors instead of classes.
            dtype: tf.uint8 leaves the pixels as they are, and tf.float32 makes them of [0, 1].
            reshape: Whether images become vectors, [examples, rows * columns].
            seed: The seed of the order of the examples.

        Raises:
            TypeError: `dtype` is neither uint8 nor float32.
            ValueError: There are not as many labels as images, or `reshape` is given images of
                several channels.
        """
        graph_seed, op_seed = v1.get_seed(seed)
        np.random.seed(graph_seed if seed is None else op_seed)
        dtype = tf.as_dtype(dtype).base_dtype
        if dtype not in (tf.uint8, tf.float32):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        self.one_hot = one_hot
        self._is_fake = fake_data
        self._epochs_completed = self._index_in_epoch = 0
        self._num_examples = _NUM_FAKE_EXAMPLES
        if not fake_data:
            images, labels = np.asarray(images), np.asarray(labels)
            _check_shapes(images, labels, reshape)
            self._num_examples = len(images)
            if reshape:
                images = images.reshape(len(images), images.shape[1] * images.shape[2])
            if dtype == tf.float32:
                images = images.astype(np.float32) * np.float32(1.0 / 255.0)
        self._images, self._labels = images, labels

    @property
    def images(self) -> np.ndarray:
        """The images, in the order of the current epoch."""
        return self._images

    @property
    def labels(self) -> np.ndarray:
        """The labels, in the order of the current epoch."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return self._num_examples

    @property
    def epochs_completed(self) -> int:
        """How many times batches have taken all examples."""
        return self._epochs_completed

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[Any, Any]:
        """Returns the next images and labels. A batch at the end of an epoch continues in the next.

        Args:
            batch_size: The number of examples.
            fake_data: Whether the batch is fake: lists of images of ones, and of labels 0.
            shuffle: Whether an epoch that begins gets a new order.
        """
        if fake_data or self._is_fake:
            label = [1] + [0] * (_NUM_CLASSES - 1) if self.one_hot else 0
            return [[1] * _NUM_FAKE_PIXELS] * batch_size, [label] * batch_size
        start = self._index_in_epoch
        if shuffle and start == self._epochs_completed == 0:
            self._shuffle()
        end = start + batch_size
        images, labels = self._images[start:end], self._labels[start:end]
        if end > self._num_examples:
            self._epochs_completed += 1
            if shuffle:
                self._shuffle()
            end -= self._num_examples
            images = np.concatenate([images, self._images[:end]])
            labels = np.concatenate([labels, self._labels[:end]])
        self._index_in_epoch = end
        return images, labels

    def _shuffle(self) -> None:
        order = np.arange(self._num_examples)
        np.random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]


class Datasets(NamedTuple):
    """The three parts of a data set.

    Attributes:
        train: The examples to train with.
        validation: The examples that were split off for validation.
        test: The examples of the test files.
    """

    train: DataSet
    validation: DataSet
    test: DataSet


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = tf.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
    """Reads MNIST from a folder. Files that are not in the folder are downloaded.

    Args:
        train_dir: The folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``,
            ``t10k-images-idx3-ubyte`` and ``t10k-labels-idx1-ubyte``, each plain or with ``.gz``.
        fake_data: Whether to read nothing, and return data sets of fake batches.
        one_hot: Whether labels are vectors, [examples, 10], instead of classes, [examples].
        dtype: tf.uint8 leaves the pixels as they are, and tf.float32 makes them of [0, 1].
        reshape: Whether images become vectors, [examples, rows * columns].
        validation_size: The number of the first training examples that are for validation instead.
        seed: The seed of the order of batches.
        source_url: The address of the folder of the files, which ends with a slash. In place of
            the default, the environment variable TF_CONDACC_MNIST_URL may give another mirror.

    Raises:
        OSError: A file is missing and cannot be downloaded, or is not that of MNIST. The message
            says where to put which files.
        TypeError: `dtype` is neither uint8 nor float32.
        ValueError: `validation_size` is not possible, or a file is not in the idx format.
    """
    options: dict[str, Any] = {"dtype": dtype, "reshape": reshape, "seed": seed}
    if fake_data:
        options.update(fake_data=True, one_hot=one_hot)
        return Datasets(*(DataSet([], [], **options) for _ in range(3)))
    paths = _paths(train_dir, source_url)
    train_images, test_images = extract_images(paths[0]), extract_images(paths[2])
    train_labels, test_labels = (extract_labels(path, one_hot) for path in (paths[1], paths[3]))
    if not 0 <= validation_size <= len(train_images):
        raise ValueError(
            f"Validation size should be between 0 and {len(train_images)}. "
            f"Received: {validation_size}."
        )
    split = slice(validation_size, None), slice(None, validation_size)
    train, validation = (
        DataSet(train_images[part], train_labels[part], **options) for part in split
    )
    return Datasets(train, validation, DataSet(test_images, test_labels, **options))


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """Reads MNIST from a folder by `read_data_sets`."""
    return read_data_sets(train_dir)


def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Datasets:
    """Reads a data set by its name, as ``tf.contrib.learn.datasets.load_dataset`` does.

    Args:
        name: "mnist", which is read from the folder ``MNIST-data``.
        size, test_with_fake_data: Not used for MNIST.

    Raises:
        ValueError: `name` is another one. The original also has iris, boston and dbpedia.
    """
    del size, test_with_fake_data
    if name != "mnist":
        raise ValueError(f"tf_condacc provides the data set mnist, got {name!r}")
    return load_mnist()


def extract_images(f: Any) -> np.ndarray:
    """Returns the images of an idx file, [examples, rows, columns, 1] uint8.

    Args:
        f: The path of the file, or a file that is open for reading bytes. Plain, or of gzip.

    Raises:
        ValueError: The file does not have the format.
    """
    (count, rows, columns), pixels = _parse(f, _IMAGES_MAGIC, "image")
    return pixels.reshape(count, rows, columns, 1)


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = _NUM_CLASSES) -> np.ndarray:
    """Returns the labels of an idx file, [examples] uint8 or [examples, num_classes] float64.

    Args:
        f: The path of the file, or a file that is open for reading bytes. Plain, or of gzip.
        one_hot: Whether labels are vectors instead of classes.
        num_classes: The length of these vectors.

    Raises:
        ValueError: The file does not have the format.
    """
    _, labels = _parse(f, _LABELS_MAGIC, "label")
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: Any, num_classes: int) -> np.ndarray:
    """Returns vectors with a 1 at the class of each label, [examples, num_classes] float64.

    Args:
        labels_dense: [examples] integers.
        num_classes: The length of a vector.
    """
    return np.eye(num_classes)[np.asarray(labels_dense).ravel()]


def maybe_download(filename: str, work_directory: str, source_url: str | None = None) -> str:
    """Downloads a file into a folder unless it is there, and returns its path.

    The file appears in one step, so that other tasks of a cluster never read a part of it.

    Args:
        filename: Name of the file in the folder.
        work_directory: The folder, which is made if it is missing.
        source_url: The address of the file. By default, that of the file of MNIST.

    Raises:
        OSError: The file cannot be downloaded, or its content is not what it must be.
    """
    path = os.path.join(work_directory, filename)
    if tf.io.gfile.exists(path):
        return path
    address = source_url or _mirror() + filename
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_SECS) as response:
            content = response.read()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise OSError(f"{address} cannot be downloaded: {error}") from error
    is_of_mnist = source_url in (None, _mirror() + filename)
    expected = _SHA256.get(filename.removesuffix(".gz")) if is_of_mnist else None
    _check_download(address, content, expected)
    tf.io.gfile.makedirs(work_directory)
    part = f"{path}.{secrets.token_hex(4)}.part"
    try:
        with tf.io.gfile.GFile(part, "wb") as file:
            file.write(content)
        tf.io.gfile.rename(part, path, overwrite=True)
    finally:
        if tf.io.gfile.exists(part):
            tf.io.gfile.remove(part)
    print("Successfully downloaded", filename, len(content), "bytes.")
    return path


def _check_shapes(images: np.ndarray, labels: np.ndarray, reshape: bool) -> None:
    if images.shape[0] != labels.shape[0]:
        raise ValueError(f"images.shape: {images.shape} labels.shape: {labels.shape}")
    if reshape and (images.ndim != 4 or images.shape[3] != 1):
        raise ValueError(
            f"reshape needs images [examples, rows, columns, 1], got the shape {images.shape}"
        )


def _mirror() -> str:
    """Returns the address of the folder of MNIST."""
    return os.environ.get(_SOURCE_VARIABLE, DEFAULT_SOURCE_URL).rstrip("/") + "/"


def _paths(folder: str, source_url: str) -> list[str]:
    """Returns the paths of the four files, and downloads those that are missing."""
    is_default = not source_url or source_url == DEFAULT_SOURCE_URL
    address = _mirror() if is_default else source_url
    paths = []
    names = [f"{name}.gz" for name in _SHA256]
    for name in names:
        plain = os.path.join(folder, name.removesuffix(".gz"))
        try:
            is_plain = tf.io.gfile.exists(plain) and not tf.io.gfile.exists(f"{plain}.gz")
            path = plain if is_plain else maybe_download(name, folder, address + name)
        except OSError as error:
            raise OSError(
                f"{name} is not in the folder {folder}, and {error}. Put these four files into "
                f"{os.path.abspath(folder)}, with or without .gz: {', '.join(names)}. Or set "
                f"{_SOURCE_VARIABLE} to the address of a folder that has them: http, https or "
                "file."
            ) from error
        print("Extracting", path)
        paths.append(path)
    return paths


def _check_download(address: str, content: bytes, sha256: str | None) -> None:
    """Raises an OSError if the content is not what the address must have."""
    if sha256 is not None:
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise OSError(f"{address} is not the file of MNIST: SHA-256 {found}, not {sha256}")
    elif address.endswith(".gz"):
        try:
            gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise OSError(f"{address} is not a gzip file: {error}") from error


def _parse(f: Any, magic: int, kind: str) -> tuple[tuple[int, ...], np.ndarray]:
    """Returns the shape and the bytes of an idx file of unsigned bytes."""
    if hasattr(f, "read"):
        content, name = f.read(), getattr(f, "name", "")
    else:
        with tf.io.gfile.GFile(f, "rb") as file:
            content, name = file.read(), f
    if content[:2] == _GZIP_MAGIC:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{name} is damaged ({error}): remove it to have it downloaded again"
            ) from error
    found = int.from_bytes(content[:4], "big")
    if found != magic:
        raise ValueError(f"Invalid magic number {found} in MNIST {kind} file: {name}")
    end = 4 + 4 * (magic % 256)  # The last byte of the magic number is the rank.
    if len(content) < end:
        raise ValueError(f"MNIST {kind} file {name} ends within its header")
    shape = struct.unpack(f">{magic % 256}I", content[4:end])
    count = int(np.prod(shape, dtype=np.int64))
    if len(content) - end != count:
        raise ValueError(
            f"MNIST {kind} file {name} has {len(content) - end} bytes of data, and its header says "
            f"{count}, of the shape {list(shape)}"
        )
    return shape, np.frombuffer(content, np.uint8, offset=end)
