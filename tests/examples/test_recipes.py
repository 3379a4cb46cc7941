"""Every recipe of examples/ runs as it stands, on a few tiny images, where its library is installed."""

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import slackaug
import tiny
from slackaug import export

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LONGEST = 60  # lines
N_ROUNDS = 60  # of a search that is to be stopped on its way
NEEDS = {  # packages of each recipe
    "pytorch_loop.py": (),
    "with_torchvision.py": ("torchvision",),
    "with_timm.py": ("timm", "torchvision"),
    "with_lightning.py": ("lightning", "torchvision"),
    "with_huggingface.py": ("datasets", "transformers", "accelerate", "torchvision"),
    "with_albumentations.py": ("albumentations",),
    "with_ultralytics.py": ("ultralytics", "torchvision"),
    "mixup_cutmix.py": ("torchvision",),
    "fine_tuning.py": ("timm", "torchvision"),
    "on_ray.py": ("ray",),
    "slurm.sh": (),
}
ENDS_WITH = {  # what the last lines say
    "with_torchvision.py": "4 test images right",
    "with_lightning.py": "`max_epochs=2` reached",
    "with_huggingface.py": "'eval_accuracy'",
    "with_ultralytics.py": "Results saved to",
    "on_ray.py": "searches",
}
# torchvision's missing operators are declared, nothing is downloaded, and searches take a blink; all else is the file's
BEFORE = """
import conftest, functools, runpy, sys
import slackaug, tiny
slackaug.search = functools.partial(slackaug.search, estimate=False)
settings = tiny.assignments()
search, study = slackaug.search, slackaug.study
slackaug.search = lambda *words, set=(), **options: search(*words, set=[*settings, *set], **options)
slackaug.study = functools.partial(study, set=[*settings, *tiny.EVALUATION])
try:
    import timm
except ModuleNotFoundError:
    pass
else:
    create = timm.create_model
    timm.create_model = lambda *words, pretrained=False, **options: create(*words, **options)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def recipes() -> list[object]:
    found = []
    for name, packages in NEEDS.items():
        missing = [one for one in packages if find_spec(one) is None]
        why = f"only compiled here; not installed: {', '.join(missing)}; `make test-recipes` has it"
        found.append(pytest.param(name, marks=pytest.mark.skipif(bool(missing), reason=why)))
    return found


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A user's folder: images, and a run."""
    random = np.random.default_rng(0)
    for part, n in (("train", 12), ("test", 2)):
        for name in ("cat", "dog"):
            (tmp_path / "pets" / part / name).mkdir(parents=True)
            for i in range(n):
                pixels = random.integers(0, 256, (40, 36, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "pets" / part / name / f"{i}.png")
    (tmp_path / "runs" / "pets").mkdir(parents=True)
    slackaug.Policy.uniform("cifar").save(tmp_path / "runs" / "pets" / "policy.json")
    export.write(str(tmp_path / "runs" / "pets"), "albumentations", str(tmp_path / "pets_policy.py"))
    return tmp_path


def environment(here: Path) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}  # Ultralytics looks at it
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests", here)))
    env |= {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "YOLO_OFFLINE": "true"}
    return env | {"YOLO_CONFIG_DIR": str(here), "HF_HOME": str(here / "hf"), "CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.recipes
@pytest.mark.parametrize("name", [one for one in recipes() if one.values[0].endswith(".py")])
def test_a_recipe_runs(name, here):
    words = [sys.executable, "-c", BEFORE, str(EXAMPLES / name)]
    done = subprocess.run(words, cwd=here, env=environment(here), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert ENDS_WITH.get(name, "epoch 2: loss") in done.stdout + done.stderr


@pytest.mark.recipes
def test_the_recipe_for_slurm_stops_at_the_signal_and_continues(here):
    """By bash alone: what SLURM itself does is to read the comments, and to send the signal."""
    (here / "torchrun").write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    (here / "torchrun").chmod(0o755)
    words = ["bash", str(EXAMPLES / "slurm.sh"), "pets", "runs/slurm", "--size", "8", "--device", "cpu"]
    words += [word for text in tiny.assignments(search__n_rounds=N_ROUNDS) for word in ("--set", text)]
    env = environment(here) | {"SLURM_GPUS_ON_NODE": "2", "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    run = here / "runs" / "slurm"
    with subprocess.Popen(words, cwd=here, env=env, stderr=subprocess.PIPE, text=True) as job:
        deadline = time.monotonic() + 200
        while not (run / "policies" / "round_01.json").is_file() and time.monotonic() < deadline and job.poll() is None:
            time.sleep(0.01)
        job.send_signal(signal.SIGTERM)
        _, told = job.communicate(timeout=100)
    assert "stopped; everything is saved" in told
    assert not (run / "finished.json").exists()
    subprocess.run(words, cwd=here, env=env, check=True, capture_output=True, timeout=300)
    assert (run / "finished.json").is_file()
    assert "n_ranks: 2" in (run / "config.yaml").read_text()


def test_every_recipe_is_listed_short_and_compiles():
    found = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")} - {"slack_in_one_file.py"}
    assert found == {*NEEDS}
    for name in found:
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        assert len(text.splitlines()) < LONGEST, name
        if name.endswith(".py"):
            assert ast.get_docstring(compile(text, name, "exec", ast.PyCF_ONLY_AST)), name
        else:
            subprocess.run([shutil.which("bash") or "bash", "-n", EXAMPLES / name], check=True)


def test_the_page_shows_every_recipe():
    page = (ROOT / "docs" / "guide" / "recipes.md").read_text(encoding="utf-8")
    assert [name for name in NEEDS if f"(../../examples/{name})" not in page] == []
