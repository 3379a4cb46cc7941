"""Reading published formats: made-up documents, malformed ones, and (marked data) the published files themselves."""

import json

import pytest
import torch

from published_files import FILES, REFERENCE, deepaa, pba, slack, subpolicies
from slackaug.augment import apply
from slackaug.augment.formats.forms import DeepAA, PBASchedule, SubPolicies
from slackaug.augment.formats.published import SUBPOLICY_KINDS, from_document, load
from slackaug.augment.policy import IMAGENET, Policy
from slackaug.augment.transforms import SPACES
from slackaug.schema import PolicyError

AUTOAUGMENT_KIND, TORCHVISION_KIND, FAST_AA_KIND, DADA_KIND = SUBPOLICY_KINDS

# --- what is read -----------------------------------------------------------------------------------------------------


def test_subpolicies():
    policy = from_document(subpolicies(), "mine")
    assert isinstance(policy, SubPolicies)
    assert (policy.name, policy.source, policy.licence) == ("mine", "made up", "ours")
    names = policy.space.names
    assert [names[n] for n in policy.op.flatten().tolist()][:3] == ["Rotate", "Invert", "Solarize"]
    assert policy.probability.tolist() == [[0.5, 1.0], [0.25, 0.0]]
    assert policy.magnitude[0, 0] == 0.5
    assert policy.magnitude[1, 0] == 128 / 256
    policy = from_document(subpolicies(subpolicies=[[["Invert", 0.1, None], ["Contrast", 0.2, 6]]]))
    assert policy.op.tolist() == [[policy.space.index("Invert"), policy.space.index("Contrast")]]


@pytest.mark.parametrize(
    ("kind", "source", "space", "name"),
    [
        (AUTOAUGMENT_KIND, "tensorflow/models", "autoaugment", "TranslateX"),
        (AUTOAUGMENT_KIND, "kakaobrain/fast-autoaugment archive.py", "autoaugment", "TranslateXAbs"),
        (TORCHVISION_KIND, "pytorch/vision", "autoaugment-torchvision", "TranslateX"),
        (FAST_AA_KIND, "kakaobrain/fast-autoaugment", "fastaa", "TranslateX"),
        (DADA_KIND, "VDIGPKU/DADA", "dada", "TranslateX"),
    ],
)
def test_kind_and_source_decide_the_ranges(kind, source, space, name):
    policy = from_document(subpolicies(kind, source))
    assert policy.space.name == space
    assert name in policy.space.names


def test_deepaa():
    policy = from_document(deepaa())
    assert isinstance(policy, DeepAA)
    assert [t.name for t in policy.space] == ["Identity", "Color", "Posterize", "RandCutout"]
    assert policy.space["Color"].span == (-0.9, 0.9)
    assert policy.space["RandCutout"].span == (0.5, 0.5)  # 16 pixels of 32
    assert policy.magnitude[:, 0].tolist() == [0.5, 1.0, 0.25, 0.5]  # Posterize: int(4 + 4 * 4 / 12) = 5 bits
    assert torch.equal(policy.magnitude[:, 0], policy.magnitude[:, 1])


def test_each_is_one_line():
    found = [from_document(document, "mine") for document in (subpolicies(), deepaa(), pba())]
    assert [repr(one).partition(",")[0] for one in found] == [
        "SubPolicies('mine'",
        "DeepAA('mine'",
        "PBASchedule('mine'",
    ]
    assert repr(found[0]).endswith(f", transformations of {found[0].space.name!r})")


def test_deepaa_on_imagenet_draws_the_area():
    names = ("Identity", "RandFlip", "RandResizeCrop_imagenet", "RandCutout")
    policy = from_document(deepaa(op_names=[f"{name}:(0.0,,1.0)" for name in names]))
    assert policy.space["RandCutout"].span == (16 / 224, 16 / 224)
    assert policy.magnitude[2].tolist() == [0.0, 1.0]


def test_pba():
    schedule = from_document(pba())
    assert isinstance(schedule, PBASchedule)
    assert schedule.n_epochs == 200
    assert schedule.first_epoch.tolist() == [0, 10, 50]
    assert schedule.probability[:, 7].tolist() == [0.0, 0.5, 1.0]
    assert schedule.magnitude[1, schedule.space.index("Rotate")] == pytest.approx(0.9)
    assert schedule.magnitude[1, schedule.space.index("Posterize")] == 1.0  # 1 bit
    assert from_document(pba(), "rsvhn_16_wrn").n_epochs == 160
    assert from_document(pba(epochs=60), "rsvhn_16_wrn").n_epochs == 60
    stray = ["7", "6", 4, 5, [0] * 60, [1, 1] * 30]  # of another lineage
    assert from_document(pba(stray, *pba()["updates"])).first_epoch.tolist() == [0, 10, 50]


def test_pba_entry_order():
    settings = [0] * 60
    settings[2:4], settings[30 + 28 : 60] = [3, 4], [7, 8]  # second in the first copy, last in the second
    schedule = from_document(pba(["1", "0", 1, 1, [0] * 60, settings]))
    (first, last) = schedule.probability[1].nonzero().flatten().tolist()
    assert [schedule.space.names[schedule.op[n]] for n in (first, last)] == ["TranslateX", "Contrast"]
    assert schedule.probability[1, [first, last]].tolist() == [0.3, 0.7]


def test_official_slack():
    policy = from_document(slack())
    assert isinstance(policy, Policy)
    assert [t.span for t in policy.space] == [(0, 90), (255, 0), (8, 2), None, (1, 0.05)]
    assert policy.pi.tolist() == slack()["logits"]
    assert policy.mu[[0, 1, 2, 4]].tolist() == [0.5, 1.0, 0.75, 0.1]
    assert policy.mean == IMAGENET[0]
    assert policy.learned == {k: slack()[k] for k in ("source", "dataset", "split", "search_hyperparameters")}
    again = Policy.from_dict(policy.to_dict())
    assert torch.allclose(again.probabilities, policy.probabilities)


def test_official_slack_in_our_space():
    space = SPACES["imagenet"]
    away = {"Solarize": [0, 255], "Posterize": [0, 6], "RandomResizeCrop": [0, 0.95]}
    ranges = {t.name: away.get(t.name, t.span and list(t.span)) for t in space}
    n = len(space)
    document = slack(transformations=space.names, magnitude_ranges=ranges, logits=[[0.0] * n] * 2, mu=[0.5] * n)
    document["magnitude_free"] = [t.name for t in space if t.span is None]
    assert from_document(document).space is space


def test_load_names_the_policy_after_its_file(tmp_path):
    path = tmp_path / "some_svhn.json"
    path.write_text(json.dumps(pba()))
    assert (load(path).name, load(path).n_epochs) == ("some_svhn", 160)
    Policy.uniform("imagenet").save(path)
    assert isinstance(load(path), Policy)
    path.write_text(json.dumps(subpolicies(subpolicies=[[["Rotate", 2, 1]]])))
    with pytest.raises(PolicyError, match=r"some_svhn\.json: subpolicies\[0\]\[0\]\[1\]: expected"):
        load(path)
    with pytest.raises(PolicyError, match=r"absent\.json: cannot be read"):
        load(tmp_path / "absent.json")


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "schema_version, format or kind"),
        ({"kind": 3}, "kind: expected a text"),
        ({"kind": "subpolicies (op,prob,level 0-10)"}, "did you mean 'subpolicies (op,prob,level 0-9)'"),
        ({"format": "slack-official-policy/2"}, "did you mean 'slack-official-policy/1'"),
        ({"kind": AUTOAUGMENT_KIND, "source": "x"}, "subpolicies: missing"),
        (subpolicies(subpolices=[]), "unknown key 'subpolices'; did you mean 'subpolicies'"),
        (subpolicies(subpolicies=[]), "subpolicies: expected a list of 1 to 10000 items, got 0"),
        (subpolicies(subpolicies=[[]]), "subpolicies[0]: expected a list of 1 to 16"),
        (subpolicies(subpolicies=[[["Rotate", 0.5]]]), "subpolicies[0][0]: expected a list of 3 items, got 2"),
        (subpolicies(subpolicies=[[["Rotat", 0.5, 1]]]), "subpolicies[0][0][0]: unknown transformation 'Rotat'; did"),
        (subpolicies(subpolicies=[[["Rotate", -0.5, 1]]]), "subpolicies[0][0][1]: expected a finite number from 0"),
        (subpolicies(subpolicies=[[["Rotate", 0.5, 10]]]), "subpolicies[0][0][2]: expected an integer from 0 to 9"),
        (subpolicies(subpolicies=[[["Rotate", 0.5, None]]]), "subpolicies[0][0][2]: expected an integer"),
        (subpolicies(DADA_KIND, subpolicies=[[["Rotate", 0.5, 1.5]]]), "[2]: expected a finite number from 0 to 1"),
        (subpolicies(DADA_KIND, subpolicies=[[["Rotate", float("nan"), 1]]]), "subpolicies[0][0][1]: expected a"),
        (deepaa(policy_probs=[[0.5, 0.2, 0.2, 0.0]]), "policy_probs[0]: the probabilities sum to 0.900000, expected 1"),
        (deepaa(policy_probs=[[1.0]]), "policy_probs[0]: expected a list of 4 items, got 1"),
        (deepaa(ops=[0, 1, 2, 4]), "ops[3]: expected an integer from 0 to 3, got 4"),
        (deepaa(mags=[0, 0, 0, 13]), "mags[3]: expected an integer from 0 to 12, got 13"),
        (deepaa(l_mags=1), "l_mags: expected an integer from 2"),
        (deepaa(op_names=["Identity"] * 4), "op_names[0]: expected a name and its range"),
        (deepaa(op_names=["Identity:(0.0,,1.0)"] * 4), "op_names: the space 'deepaa' lists Identity more than once"),
        (deepaa(op_names=["Rotated:(0.0,,1.0)"] * 4), "op_names[0]: unknown transformation 'Rotated'; did you mean"),
        (deepaa(op_names=["Posterize:(0.0,,9.0)"]), "op_names[0]: Posterize takes strengths from 1 to 8"),
        (pba(["1", "0", 9, 10, [0] * 60, [0] * 59]), "updates[0][5]: expected a list of 60 items, got 59"),
        (pba(["1", "0", 9, 10, [0] * 60, [11] * 60]), "updates[0][5][0]: expected an integer from 0 to 10, got 11"),
        (pba(["1", "0", 9, 10, [0] * 60, [10] * 60]), "updates[0][5][1]: expected an integer from 0 to 9, got 10"),
        (pba(["1", "0", 9, 201, [0] * 60, [0] * 60]), "updates[0][3]: expected an integer from 0 to 200, got 201"),
        (pba(["1", "0", 9, 9, [0] * 60, [0] * 60], ["2", "1", 9, 8, [0] * 60, [0] * 60]),
         "updates[1][3]: the schedule goes back from epoch 9 to 8"),
        (slack(logits=[[0.0] * 5]), "logits: expected a list of 2 items, got 1"),
        (slack(logits=[[0.0] * 5, [1e9] * 5]), "logits[1][0]: expected a finite number from -100 to 100"),
        (slack(pi=[[0.2] * 5] * 2), "pi: is not the softmax of logits"),
        (slack(mu=[0.5, 0, 0.5, 0.5, 0.5]), "mu[1] (Solarize): expected a finite number from 0.001 to 1, got 0"),
        (slack(magnitude_free=[]), "magnitude_free: expected Invert"),
        (slack(magnitude_ranges={"Rotate": [0, 90]}), "magnitude_ranges: expected one entry per transformation"),
        (slack(magnitude_ranges=slack()["magnitude_ranges"] | {"Posterize": [0, 8]}), "Posterize takes strengths"),
        (slack(transformations=["Rotat"]), "transformations[0]: unknown transformation 'Rotat'; did you mean 'Rotate'"),
        (slack(sigma=10**400), "sigma: expected a finite number from 0.001 to 1"),
    ],
)  # fmt: skip
def test_malformed(document, message):
    with pytest.raises(PolicyError) as error:
        from_document(document)
    assert message in str(error.value)


# --- the published files ----------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("path", FILES or [None], ids=lambda path: path.stem if path else "absent")
def test_published_file(path, generator):
    if path is None:
        pytest.skip(f"the published policies are not under {REFERENCE}")
    policy = load(path)
    for progress in (0.0, 0.5, 1.0):
        tau = policy.sample(1000, generator, progress)
        assert isinstance(policy, Policy) or ((tau.magnitude >= 0) & (tau.magnitude <= 1)).all()
        images = torch.randint(0, 256, (1000, 3, 32, 32), generator=generator, dtype=torch.uint8)
        assert apply.augment(images, tau, generator).shape == images.shape
    if not isinstance(policy, Policy):
        assert [row.name for row in policy.rows(0.5)] == policy.space.names
