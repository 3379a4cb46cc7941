"""Settings as dictionaries, YAML and --set: what is accepted, and what is said about the rest."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackaug.config import paper, parse
from slackaug.config.parse import SettingError, checked, parse_assignment, read_yaml, update


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.1
    limit: float | None = 5.0
    n_steps: int = 3

    def __post_init__(self) -> None:
        if self.n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {self.n_steps}")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = "a"
    flag: bool = False
    choice: bool | None = None
    names: tuple[str, ...] = ()
    inner: Inner = field(default_factory=Inner)


# --- update -----------------------------------------------------------------------------------------------------------


def test_update_changes_what_is_named_and_nothing_else():
    new = update(Outer(), {"name": "b", "names": ["x", "y"], "inner": {"rate": 2, "limit": None}})
    assert new == Outer(name="b", names=("x", "y"), inner=Inner(rate=2.0, limit=None))
    assert isinstance(new.inner.rate, float)
    assert update(Outer(), {}) == Outer()
    assert update(Outer(choice=True), {"choice": None}).choice is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nmae": "b"}, "unknown setting 'nmae'; did you mean 'name'?"),
        ({"qqqq": 1}, "unknown setting 'qqqq'; known: name, flag, choice, names, inner"),
        ({"inner": {"n_step": 1}}, "unknown setting 'inner.n_step'; did you mean 'inner.n_steps'?"),
        ({"inner": 3}, "inner: expected settings of its own, such as inner.rate"),
        ({"inner": None}, "inner: expected settings of its own, such as inner.rate"),
        ({"inner": {"n_steps": 0}}, "inner.n_steps must be at least 1, got 0"),
        ({"name": {"a": 1}}, "name: expected str, got an object"),
        ({"inner": {"n_steps": 2.0}}, "inner.n_steps: expected int, got 2.0"),
        ({"inner": {"rate": None}}, "inner.rate: expected float, got null"),
        ({"inner": {"limit": "x"}}, 'inner.limit: expected float or null, got "x"'),
        ({"choice": "yes"}, 'choice: expected bool or null, got "yes"'),
        ({"names": "x"}, 'names: expected a list of texts, got "x"'),
        ({"names": ["x", 1]}, "names: expected a list of texts, got a list"),
        ({3: 1}, "unknown setting '3'"),
    ],
)
def test_update_says_what_is_wrong(changes, message):
    with pytest.raises(SettingError) as error:
        update(Outer(), changes)
    assert str(error.value).startswith(message)


def test_every_setting_of_a_run_can_be_given_by_its_path():
    config = paper.row("cifar10")
    for name, value in parse.to_dict(config).items():
        for inner, inner_value in value.items() if isinstance(value, dict) else ():
            assert update(config, {name: {inner: inner_value}}) == config
        assert update(config, {name: value}) == config


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [(1, float, 1.0), (None, int | None, None), (3, int | None, 3), ([], tuple[str, ...], ()), (1, float | None, 1.0)],
)
def test_checked_accepts(value, kind, expected):
    result = checked(value, kind, "here")
    assert (result, type(result)) == (expected, type(expected))


@given(
    value=st.one_of(
        st.integers(-9, 9), st.booleans(), st.floats(), st.text(max_size=5), st.none(), st.lists(st.integers())
    )
)
def test_checked_gives_the_kind_or_an_error(value):
    for kind in (bool, int, float, str):
        if type(value) is kind or (kind is float and type(value) is int):
            assert type(checked(value, kind, "here")) is kind
        else:
            with pytest.raises(SettingError, match=f"^here: expected {kind.__name__}, got "):
                checked(value, kind, "here")


# --- --set ------------------------------------------------------------------------------------------------------------


ASSIGNMENTS = {
    "seed=3": {"seed": 3}, "search.n_rounds=5": {"search": {"n_rounds": 5}}, "a.lr=1e-4": {"a": {"lr": 1e-4}},
    "a.lr=.5": {"a": {"lr": 0.5}}, "a.clip=null": {"a": {"clip": None}}, "a.learn_pi=false": {"a": {"learn_pi": False}},
    "exclude=[Invert, Hue]": {"exclude": ["Invert", "Hue"]}, "model=wrn-40-2": {"model": "wrn-40-2"},
    "model=module:callable": {"model": "module:callable"}, "model=a=b": {"model": "a=b"}, "model=": {"model": None},
    "model=@home": {"model": "@home"},  # not YAML: a text then
}  # fmt: skip


@pytest.mark.parametrize("text", ASSIGNMENTS)
def test_parse_assignment(text):
    assert parse_assignment(text) == ASSIGNMENTS[text]


@pytest.mark.parametrize("text", ["seed", "", "=3", ".a=3", "a.=3", "a..b=3"])
def test_parse_assignment_refuses(text):
    with pytest.raises(SettingError, match=r"expected NAME=VALUE, such as search\.n_rounds=5"):
        parse_assignment(text)


def test_assignments_end_in_the_configuration():
    config = paper.row("cifar10")
    for text in ("search.policy_lr=1e-1", "pretrain.epochs=7", "search.clip=null", "exclude=[Invert]", "flip=false"):
        config = update(config, parse_assignment(text))
    assert (config.search.policy_lr, config.pretrain.epochs, config.search.clip) == (0.1, 7, None)
    assert (config.exclude, config.flip) == (("Invert",), False)
    for text, kind, value in (("n_rounds=1e1", "int", 10.0), ("clip=nan", "float or null", "NaN")):
        with pytest.raises(SettingError, match=f"^search.{text[:-4]}: expected {kind}, got {value}$"):
            update(config, parse_assignment(f"search.{text}"))


# --- YAML files -------------------------------------------------------------------------------------------------------


def written(tmp_path, text: str | bytes):
    path = tmp_path / "config.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_dump_is_read_back_to_the_same(tmp_path):
    config = replace(paper.row("imagenet100"), exclude=("Invert", "Hue"), flip=False, seed=12)
    config = replace(config, search=replace(config.search, policy_lr=1e-7, weight_decay=1e-05))
    document = read_yaml(written(tmp_path, parse.dump(config)))
    assert document == parse.to_dict(config)
    assert update(paper.row("cifar10"), document) == config


def test_dump_is_plain_yaml():
    inner = "inner:\n  rate: 0.1\n  limit: 5.0\n  n_steps: 3\n"
    assert parse.dump(Outer()) == f"name: a\nflag: false\nchoice: null\nnames: []\n{inner}"


@pytest.mark.parametrize("text", ["", "- 1\n", "text", "3", "1: 2\n", "null"])
def test_a_document_must_be_settings(tmp_path, text):
    with pytest.raises(SettingError, match=r"config\.yaml: expected settings such as"):
        read_yaml(written(tmp_path, text))


NOT_YAML = {
    "list": "a: [1, 2", "quote": "a: 'b", "tab": "\ta: 1", "call": "a: !!python/object/apply:os.system [exit]",
    "name": "a: !!python/name:os.system", "tag": "a: !own 3", "alias": "a: *missing", "bytes": b"a: \xff\xfe",
    "date": "a: 2024-13-45", "deep": "[" * 20_000, "no int": "a: !!int ''", "no bool": "a: !!bool maybe",
    "never": "a: !!timestamp soon", "two documents": "a: 1\n---\nb: 2\n",
}  # fmt: skip


@pytest.mark.parametrize("text", NOT_YAML.values(), ids=NOT_YAML)
def test_what_is_not_plain_yaml_is_refused(tmp_path, text):
    with pytest.raises(SettingError, match=r"config\.yaml: not valid YAML \(.+\)$"):
        read_yaml(written(tmp_path, text))


def test_a_date_is_no_text_and_an_anchor_is_harmless(tmp_path):
    with pytest.raises(SettingError, match=r"name: expected str, got .datetime"):
        update(Outer(), read_yaml(written(tmp_path, "name: 2024-01-01\n")))
    assert update(Outer(), read_yaml(written(tmp_path, "inner: &i {rate: 0.5}\n"))).inner.rate == 0.5


def multiplied(first: str, line: str) -> str:
    """Lines of which each holds nine times the one before: 9 ** 20 in the end."""
    return first + "".join(line.format(n=n, before=", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 21))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("inner: &i [*i]\n", r"aliases \(\*name\) are not read"),
        (multiplied("a0: &a0 [lol]\n", "a{n}: &a{n} [{before}]\n"), r"aliases \(\*name\) are not read"),
        (multiplied("a0: &a0 {k: v}\n", "a{n}: &a{n} {{<<: [{before}]}}\n"), r"aliases \(\*name\) are not read"),
        ("a: " + "[{b: " * 10_000, "nested too deeply"),
    ],
    ids=["of itself", "lists", "merged", "brackets"],
)
def test_what_would_take_all_memory_or_time_is_refused_soon(text, says, tmp_path):
    with pytest.raises(SettingError, match=rf"not valid YAML \({says}\)$"):
        read_yaml(written(tmp_path, text))


@pytest.mark.timeout(20)  # it took minutes
@pytest.mark.parametrize("end", ["", ".5"], ids=["integer", "float"])
def test_a_time_of_day_is_a_text_however_long(end, tmp_path):
    text = "1" + ":59" * 30_000 + end
    assert read_yaml(written(tmp_path, f"name: {text}\n")) == {"name": text}
    assert parse_assignment(f"name={text}") == {"name": text}


def test_a_file_that_is_large_missing_or_a_folder_is_refused(tmp_path):
    large = written(tmp_path, "a: " + "x" * 100_000)
    for path, says in (
        (large, "larger than 100 kB"),
        (tmp_path / "none", "No such file"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(SettingError, match=rf"^{path}: .*{says}"):
            read_yaml(path)


def test_infinity_is_a_number_that_the_configuration_refuses(tmp_path):
    with pytest.raises(SettingError, match=r"search\.model_lr: expected float, got Infinity"):
        update(paper.row("cifar10"), read_yaml(written(tmp_path, "search: {model_lr: .inf}\n")))
