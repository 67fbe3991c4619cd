"""The hyperparameters of ``tf.contrib.training``."""

from __future__ import annotations

import json

import pytest

from tf_condacc.compat import HParams


@pytest.fixture
def hparams():
    return HParams(rate=0.5, steps=3, name="x", sizes=[1, 2], on=False, folder=None)


def test_hyperparameters_are_attributes(hparams):
    hparams.add_hparam("decay", 0.25)
    hparams.set_hparam("steps", 4)
    hparams.rate = 2.0
    assert (hparams.decay, hparams.steps) == (0.25, 4)
    assert hparams.values() == {
        **{"rate": 2.0, "steps": 4, "name": "x", "sizes": [1, 2]},
        **{"on": False, "folder": None, "decay": 0.25},
    }
    assert "decay" in hparams and "set_hparam" not in hparams
    assert hparams.get("name", "y") == "x" and hparams.get("no_name", "y") == "y"
    hparams.del_hparam("decay")
    assert "decay" not in hparams and not hasattr(hparams, "decay")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("rate=1e-3,steps=7,name=a b=c", {"rate": 0.001, "steps": 7, "name": "a b=c"}),
        ("sizes=[3,4,5]", {"sizes": [3, 4, 5]}),
        ("sizes[1]=9,sizes[0]=8,rate=1", {"sizes": [8, 9], "rate": 1.0}),
        ("on=true,folder=/tmp", {"on": True, "folder": "/tmp"}),
        ("on=1, sizes=6, name=", {"on": True, "sizes": [6], "name": ""}),
    ],
)
def test_text_sets_hyperparameters_in_their_types(hparams, text, expected):
    before = hparams.values()
    assert hparams.parse(text) is hparams
    assert hparams.values() == before | expected
    assert all(type(hparams.get(name)) is type(value) for name, value in expected.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed=1", "speed"),
        ("name=y,steps=0.5", "steps: expected int, got '0.5'"),
        ("name=y,on=yes", "on: expected bool, got 'yes'"),
        ("name=y,sizes[2]=1", "sizes has no single element 2"),
        ("name=y,rate[0]=1", "rate has no single element 0"),
        ("name=y,rate=[1,2]", "rate is expected to be one value"),
        ("name=y,steps", "Malformed hyperparameter value: 'steps'"),
        ("name=y,,steps=1", "Malformed hyperparameter value: ',steps=1'"),
    ],
)
def test_bad_text_names_the_hyperparameter_and_sets_nothing(hparams, text, message):
    before = hparams.values()
    with pytest.raises(ValueError) as raised:
        hparams.parse(text)
    assert message in str(raised.value)
    assert hparams.values() == before


def test_a_value_has_the_type_of_its_hyperparameter(hparams):
    hparams.override_from_dict({"rate": 2, "sizes": (5, 6, 7), "folder": [1]})
    assert (hparams.rate, type(hparams.rate)) == (2.0, float)
    assert (hparams.sizes, hparams.folder) == ([5, 6, 7], [1])
    for name, value in (("steps", 0.5), ("steps", True), ("name", 3), ("on", 1), ("rate", "1")):
        with pytest.raises(ValueError, match=f"hyperparameter {name} from type"):
            hparams.set_hparam(name, value)
    with pytest.raises(ValueError, match="sizes is expected to be a list, got 3"):
        hparams.set_hparam("sizes", 3)
    with pytest.raises(KeyError, match="Unknown hyperparameter speed"):
        hparams.override_from_dict({"speed": 1})


def test_json_is_written_and_read(hparams):
    text = hparams.to_json(sort_keys=True)
    assert json.loads(text) == hparams.values()
    assert list(json.loads(text)) == sorted(hparams.values())
    other = HParams(rate=0.0, name="", sizes=[0], steps=0, on=True, folder=None)
    assert other.parse_json(text).values() == hparams.values() | {"folder": None}


def test_a_name_is_used_once(hparams):
    for name in ("rate", "parse"):
        with pytest.raises(ValueError, match=f"reserved: {name} is"):
            hparams.add_hparam(name, 1)
    with pytest.raises(ValueError, match="cannot be empty: layers"):
        hparams.add_hparam("layers", [])
