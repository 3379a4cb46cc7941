"""What the benchmark of estimators compares has the same training images in every step."""

import pytest

import steadiness
from slackaug.config import presets
from slackaug.data import load


@pytest.mark.parametrize("preset", ["quick", "fast", "standard"])
def test_variants_start_from_the_papers_estimator(preset, tiny_npz):
    base = presets.preset(preset, load(str(tiny_npz)))
    paper = steadiness.settled(steadiness.VARIANTS["as the paper"], steadiness.as_the_paper(base))
    assert (paper.n_composites, paper.batch, paper.n_val) == (8, base.pretrain.batch, base.pretrain.batch)
    assert not paper.baseline
    assert not paper.tied
    for variant in steadiness.VARIANTS.values():
        search = steadiness.settled(variant, steadiness.as_the_paper(base))
        assert search.n_composites * search.batch == 8 * paper.batch
        assert search.n_val == variant.v_images * paper.batch
