"""Several processes, one policy: equal bits, one message, and no process that waits for one that has ended."""

import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from rich.console import Console
from torch import distributed as dist

import slackaug
import tiny
from slackaug import cli
from slackaug.auto import calibrate, conduct, pretrain, resume
from slackaug.auto.learn import Keeper
from slackaug.auto.problem import Problem
from slackaug.auto.stages import Search
from slackaug.config import presets
from slackaug.config.run_config import RunConfig
from slackaug.data import load
from slackaug.messages import search as said_of_search
from slackaug.runs.checkpoints import Checkpoints, read
from slackaug.runs.ensemble import ALONE, Ensemble

ON_THE_CPU = {"CUDA_VISIBLE_DEVICES": ""}
SECONDS = 90  # no test may wait longer for a process
UNROLLED = ("policy", 1, 5)  # with momentum from a step before


class Ended(NamedTuple):
    code: int
    output: str
    steps: list[str]  # a line for each: where, and digests of pi, mu, theta and what trials have come to


class Mishap(NamedTuple):
    """What befalls one rank at one moment: a signal, or an error instead of a checkpoint."""

    rank: int
    moment: tiny.Moment
    signal: int = 0
    error: Exception | None = None


def digest(value):
    content = value.encode() if isinstance(value, str) else value.detach().numpy().tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def act(words, folder, rank, n_ranks, port, mishap):
    """One rank, as torchrun would start it; with a checkpoint after every step."""
    tiny.prepare(folder / f"output {rank}")
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(n_ranks), "MASTER_PORT": str(port)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "True"} | ON_THE_CPU
    gather, real = Ensemble.gather_states, Keeper.check_finite
    here = None

    def check_finite(self, standing, values):
        nonlocal here
        if here != (here := standing[:3]):
            digests = [digest(tensor) for tensor in (standing.phi.pi, standing.phi.mu, self.search.theta)]
            stage = self.search.stage
            digests.append(digest(repr((getattr(stage, "composing", None), *stage.given[3:]))))
            with (folder / f"steps {rank}").open("a") as file:
                print(*here, *digests, file=file)
            if mishap is not None and mishap.signal and (rank, here) == mishap[:2]:
                os.kill(os.getpid(), mishap.signal)
        return real(self, standing, values)

    def gather_states(self, state):
        if mishap is not None and mishap.error is not None and (rank, here) == mishap[:2]:
            raise mishap.error
        return gather(self, state)

    Keeper.check_finite, Ensemble.gather_states = check_finite, gather_states
    sys.argv = ["slackaug", *words]
    cli.main()


def play(words, folder, n_ranks=2, mishap=None):
    """All ranks until they have ended; the store is here, as it is in torchrun's own process."""
    store = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("steps *"):
        old.unlink()
    processes = [tiny.start(act, words, folder, rank, n_ranks, store.port, mishap) for rank in range(n_ranks)]
    ended = []
    for rank, process in enumerate(processes):
        code, steps = tiny.ended(process, SECONDS), folder / f"steps {rank}"
        lines = steps.read_text().splitlines() if steps.exists() else []
        ended.append(Ended(code, (folder / f"output {rank}").read_text(), lines))
    return ended


def messages(ended):
    """What all ranks say as errors."""
    return [text for rank in ended for text in re.findall(r"^slackaug: .*(?:\n  .*)*", rank.output, re.MULTILINE)]


@pytest.fixture(scope="module")
def pair(tiny_npz, tmp_path_factory):
    """A run of two ranks that nobody interrupted, not to be changed; and what the ranks did."""
    folder = tmp_path_factory.mktemp("pair")
    return folder / "run", play(tiny.arguments(tiny_npz, folder / "run"), folder)


@pytest.fixture(scope="module")
def stopped(tiny_npz, tmp_path_factory):
    """One of two ranks gets SIGTERM in the fifth step of the first round."""
    folder = tmp_path_factory.mktemp("stopped")
    mishap = Mishap(1, UNROLLED, signal.SIGTERM)
    return folder / "run", play(tiny.arguments(tiny_npz, folder / "run"), folder, mishap=mishap)


# --- one policy, several models ---------------------------------------------------------------------------------------


def test_all_ranks_hold_the_same_policy_at_every_step(pair):
    _, (first, second) = pair
    assert (first.code, second.code) == (0, 0)
    steps = [[line.split() for line in rank.steps] for rank in (first, second)]
    assert len(steps[0]) == len(steps[1]) == 6 + 2 * 6
    for a, b in zip(*steps, strict=True):
        assert a[:5] == b[:5]  # stage, round, step, pi, mu
        assert a[5] != b[5]  # theta
    assert len({line[3] for line in steps[0]}) == 1 + 2 * 3  # pi: the uniform one, and one after each unrolled step


def test_all_ranks_come_to_the_same_decisions(tiny_npz, tmp_path):
    """How much is composed, and the rate: by the losses of all models together."""
    words = tiny.arguments(tiny_npz, tmp_path / "run", n_composed="null", fewest_composed=1, search__calibrate="true")
    ranks = play(words, tmp_path)
    assert [rank.code for rank in ranks] == [0, 0], ranks[0].output
    steps = [[line.split() for line in rank.steps] for rank in ranks]
    assert len(steps[0]) == len(steps[1])
    for a, b in zip(*steps, strict=True):
        assert (a[:5], a[6]) == (b[:5], b[6])  # where, pi, mu, and the losses that trials are judged by
        assert a[5] != b[5]  # theta, which they are the losses of
    assert {line[0] for line in steps[0]} == {"pre-training", "calibration", "re-training", "policy"}
    for file in (pretrain.FILE, calibrate.FILE):
        assert json.loads((tmp_path / "run" / file).read_text())["trials"]


def test_only_rank_0_speaks_and_writes(pair):
    run, (first, second) = pair
    assert said_of_search.ensemble(2) in first.output
    assert second.output == ""
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 18
    assert resume.read_config(run).n_ranks == 2
    assert slackaug.Policy.load(run / "policy.json").learned["ranks"] == 2


def test_the_gradient_is_the_mean_of_the_single_ones(stopped, tiny_npz):
    """Each rank's search alone, from the checkpoint before; the sum of gradients tells that of the ensemble."""
    run, _ = stopped
    config = resume.read_config(run)
    before, after = (read(path)["ranks"] for path in Checkpoints(run / "checkpoints").paths())
    found = []
    for rank in range(2):
        search = Search(Problem(config, load(str(tiny_npz)), "cpu", Ensemble(rank, 2)), before[rank])
        gradients, (_, passes) = [], search.problem.made
        passes.average = lambda gradient, into=gradients: into.append(gradient) or gradient
        assert next(search.stage.run())[:3] == UNROLLED
        found.append(gradients)
    for name, (a, b) in zip(("pi_momentum", "mu_momentum"), zip(*found, strict=True), strict=True):
        assert not torch.equal(a, b)
        old, new = (states[0]["stage"]["search"][name] for states in (before, after))
        assert old.abs().max() > 0
        assert torch.equal(new, old + (a + b) / 2)
        assert torch.equal(new, after[1]["stage"]["search"][name])


def test_each_rank_has_its_own_model_and_streams_and_all_have_one_split(tiny_npz):
    data = load(str(tiny_npz))
    config = presets.quick(data)
    alone, first, second = (Problem(config, data, "cpu", e) for e in (ALONE, Ensemble(0, 2), Ensemble(1, 2)))
    assert len({digest(Search(problem).theta) for problem in (alone, first, second)}) == 3
    for stage in ("pre-training", "search"):
        streams = [problem.streams(stage) for problem in (alone, first, second)]
        assert all(len({digest(stream[name].get_state()) for stream in streams}) == 3 for name in streams[0])
    for problem in (first, second):
        assert torch.equal(problem.train.images, alone.train.images)
        assert torch.equal(problem.val.labels, alone.val.labels)


def test_a_process_alone_communicates_nothing(monkeypatch, quick_search, tiny_npz, tmp_path):
    for name in ("init_process_group", "all_reduce", "all_gather", "all_gather_object", "TCPStore"):
        monkeypatch.setattr(dist, name, None)
    gradient = torch.rand(3, generator=torch.Generator().manual_seed(0))
    assert ALONE.average(gradient) is gradient
    assert ALONE.agree(0, 1) == [0, 1]
    slackaug.search(tiny_npz, tmp_path / "run", set=tiny.assignments())
    assert not dist.is_initialized()


# --- stopping and going on --------------------------------------------------------------------------------------------


def test_a_signal_to_one_rank_stops_all_and_saves(stopped, pair, tiny_npz, tmp_path):
    run, ended = stopped
    assert [rank.code for rank in ended] == [143, 143]
    (message,) = messages(ended)
    to_continue = message.partition("stopped; everything is saved. To continue:\n  ")[2]
    assert to_continue.startswith("torchrun --nproc-per-node 2 -m slackaug search ")
    again = shutil.copytree(run, tmp_path / "run")
    words = [str(again) if word == str(run) else word for word in shlex.split(to_continue)[5:]]
    assert [rank.code for rank in play(words, tmp_path)] == [0, 0]
    assert tiny.outcome(again) == tiny.outcome(pair[0])


@pytest.mark.parametrize(("victim", "moment"), [(1, ("policy", 2, 5)), (0, ("pre-training", 0, 3))])
def test_a_killed_rank_ends_the_run_which_can_go_on(victim, moment, pair, tiny_npz, tmp_path):
    out = tmp_path / "run"
    ended = play(tiny.arguments(tiny_npz, out), tmp_path, mishap=Mishap(victim, moment, signal.SIGKILL))
    assert (ended[victim].code, ended[1 - victim].code) == (-signal.SIGKILL, 1)
    (message,) = messages(ended)
    assert f"rank {victim} has ended, and the ensemble of 2 with it; everything up to the last checkpoint" in message
    assert f"To continue:\n  torchrun --nproc-per-node 2 -m slackaug search {tiny_npz} -o {out} --resume" in message
    assert [rank.code for rank in play(tiny.resume(tiny_npz, out), tmp_path)] == [0, 0]
    assert tiny.outcome(out) == tiny.outcome(pair[0])


def test_those_that_are_left_find_out_which_rank_ended(tiny_npz, tmp_path):
    mishap = Mishap(2, ("re-training", 1, 2), signal.SIGKILL)
    ended = play(tiny.arguments(tiny_npz, tmp_path / "run"), tmp_path, 4, mishap)
    assert [rank.code for rank in ended] == [1, 1, -signal.SIGKILL, 1]
    (message,) = messages(ended)
    assert "rank 2 has ended, and the ensemble of 4 with it" in message


@pytest.mark.parametrize(("had", "n_ranks"), [(2, 1), (2, 3), (1, 2)])
def test_another_number_of_ranks_is_refused(had, n_ranks, finished, pair, tiny_npz, tmp_path):
    out = shutil.copytree(pair[0] if had == 2 else finished, tmp_path / "run")
    before = tiny.contents(out)
    ended = play(tiny.resume(tiny_npz, out), tmp_path, n_ranks)
    assert {rank.code for rank in ended} == {2}
    (message,) = messages(ended)
    processes, again = ("2 processes", "torchrun --nproc-per-node 2 -m ") if had == 2 else ("1 process", "")
    assert f"this run has {processes}, not {n_ranks}. To continue:\n  {again}slackaug search" in message
    assert tiny.contents(out) == before


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--set", "search.n_rounds=0"], "search.n_rounds must be at least 1"),
        (["--set", "n_ranks=3"], "n_ranks=3, but this search has 2 processes; give --set n_ranks=2, or start it with"),
        (["-o", "."], "is not empty"),  # found by rank 0 alone
        (["--device", "meta"], "--device meta: cannot be used"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_input_is_said_once(more, says, tiny_npz, tmp_path):
    more = [str(tmp_path) if word == "." else word for word in more]
    ended = play(tiny.arguments(tiny_npz, tmp_path / "run", *more), tmp_path)
    assert [rank.code for rank in ended] == [2, 2]
    assert "".join(rank.output for rank in ended).count(says) == 1
    assert "Traceback" not in ended[0].output + ended[1].output


@pytest.mark.parametrize(
    ("rank", "error", "says"),
    [
        (0, OSError(errno.ENOSPC, "No space left on device"), "cannot be written (No space left on device)"),
        (1, RuntimeError("no memory left"), "no memory left"),
        (None, None, "the loss or the model is no longer a number (pre-training, step"),
    ],
)
def test_what_goes_wrong_on_one_rank_or_on_all_is_said_once(rank, error, says, tiny_npz, tmp_path):
    diverging = ["--set", "pretrain.lr=1e30"] if rank is None else []
    mishap = None if rank is None else Mishap(rank, UNROLLED, error=error)
    ended = play(tiny.arguments(tiny_npz, tmp_path / "run", *diverging), tmp_path, mishap=mishap)
    assert [each.code for each in ended] == [1, 1]
    (message,) = messages(ended)
    assert says in message
    assert rank is None or message in ended[rank].output


def test_the_ranks_must_have_the_same_data(tiny_npz, tmp_path):
    data = load(str(tiny_npz))
    ranks = SimpleNamespace(all=lambda value: [value, "another"], n_ranks=2)
    session = conduct.Session(str(tiny_npz), tmp_path / "run", "cpu", None, None, [], Console(quiet=True), ranks)
    with (
        pytest.raises(ValueError, match="is not the same data for all processes of the ensemble"),
        conduct.begun(session, presets.quick(data), data, overwrite=False),
    ):
        pass


def test_a_number_of_processes_that_is_none(command, tiny_npz, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "x")
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run"))
    assert (done.returncode, "WORLD_SIZE=x: expected a number, as torchrun sets it" in done.stderr) == (2, True)


def test_processes_share_the_gpus_that_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    assert [Ensemble(rank, 4, store=object()).place("cuda") for rank in range(4)] == ["cuda:0", "cuda:1"] * 2
    some = Ensemble(1, 2, store=object())
    with pytest.raises(ValueError, match="--device cuda:1: an ensemble takes all GPUs of its machine"):
        some.place("cuda:1")
    assert some.place("cpu") == "cpu"
    assert ALONE.place("cuda:1") == "cuda:1"


def test_the_command_to_go_on():
    config = RunConfig(preset="quick", model="small", space="cifar", n_ranks=4)
    for device in ("cuda:0", "cuda:3"):
        session = conduct.Session("my data", Path("r"), device, None, None, [], Console())
        expected = "torchrun --nproc-per-node 4 -m slackaug search 'my data' -o r --resume"
        assert session.resume_command(config) == expected + ("" if torch.cuda.is_available() else " --device cuda")


# --- torchrun and NCCL ------------------------------------------------------------------------------------------------


def test_torchrun(tiny_npz, tmp_path):
    """The command as users have it, on a setting that is wrong."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "slackaug"]
    words = tiny.arguments(tiny_npz, tmp_path / "run", "--exclude", "Invrt")
    env = os.environ | {"OMP_NUM_THREADS": "1"} | ON_THE_CPU
    done = subprocess.run([*torchrun, *words], env=env, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1  # torchrun's own
    assert done.stderr.count("slackaug: unknown transformation 'Invrt'; did you mean 'Invert'") == 1
    assert done.stderr.count("exitcode  : 2") == 2
    assert done.stderr.index("slackaug: ") < done.stderr.index("Traceback")  # torchrun's own, too


# --- a study, which starts its ensembles by itself --------------------------------------------------------------------


def study(words, out, more, *, stop_at=None):
    """The exit code and what is said; stopped as by Ctrl-C, which a terminal sends to all that it has started, too."""
    env = os.environ | {"OMP_NUM_THREADS": "1"} | ON_THE_CPU
    words = [sys.executable, "-m", "slackaug", *words, *map(str, more)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(words, env=env, start_new_session=True, **streams)
    until, metrics = time.monotonic() + SECONDS, out / "searches/0/metrics.jsonl"
    while stop_at and not (metrics.is_file() and stop_at in metrics.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    if stop_at:
        os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=SECONDS)
    return process.returncode, said


def learned(run):
    return {name: text for name, text in tiny.outcome(run).items() if name != "metrics.jsonl"}


ONE = ["--set", "n_ranks=2", "--searches", 1, "--evaluations", 1, "--baselines", "none"]


def test_a_study_learns_what_torchrun_does(pair, tiny_npz, tmp_path):
    out = tmp_path / "study"
    code, said = study(tiny.study_words(tiny_npz, out, recipe="quick"), out, ONE)
    assert code == 0, said
    assert learned(out / "searches/0") == learned(pair[0])
    assert slackaug.Policy.load(out / "searches/0/policy.json").learned["ranks"] == 2


@pytest.mark.slow
def test_a_study_that_is_interrupted_saves_its_ensemble_and_goes_on(tiny_npz, tmp_path):
    out, many = tmp_path / "study", {"search__n_unrolled": 200}
    steps = ["--set", "search.n_unrolled=200"]
    code, said = study(tiny.study_words(tiny_npz, out, recipe="quick"), out, [*ONE, *steps], stop_at='"policy"')
    log = out / "searches/0.log"
    assert (code, "stopped; everything is saved" in said) == (130, True), said
    assert "slackaug: stopped; everything is saved" in log.read_text()  # the ranks have, before the study has ended
    state = read(Checkpoints(out / "searches/0/checkpoints").paths()[-1])["ranks"]
    assert len(state) == 2
    assert not (out / "searches/0/finished.json").exists()
    code, said = study(tiny.study_resume(out), out, [])
    assert code == 0, said
    ended = play(tiny.arguments(tiny_npz, tmp_path / "run", **many), tmp_path)
    assert [rank.code for rank in ended] == [0, 0]
    assert learned(out / "searches/0") == learned(tmp_path / "run")


def test_a_search_alone_says_how_to_start_an_ensemble(command, tiny_npz, tmp_path):
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--set", "n_ranks=4"))
    assert (done.returncode, "torchrun --nproc-per-node 4 -m slackaug search" in done.stderr) == (2, True)


@pytest.mark.gpu
def test_two_processes_on_one_gpu(tiny_npz, tmp_path):
    """NCCL has no place for them: gradients go over gloo. Both move the one policy."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "slackaug"]
    words = tiny.arguments(tiny_npz, tmp_path / "run", "--device", "cuda", search__n_rounds=1)
    env = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0", "TORCHDYNAMO_DISABLE": "1"}
    done = subprocess.run([*torchrun, *words], env=env, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/policy.json").read_text())["learned"]["ranks"] == 2


@pytest.mark.gpu
def test_one_rank_over_nccl(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in names.items():
        monkeypatch.setenv(name, str(value))
    try:
        one = Ensemble.connect("cuda")
        assert (dist.get_backend(), dist.get_backend(one.talk)) == ("nccl", "gloo")
        assert one.place("cuda") == "cuda:0"
        for device in ("cpu", "cuda"):
            gradient = torch.rand(3, 17, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
            assert torch.equal(one.average(gradient), gradient)
            assert one.average(gradient).device == gradient.device
        assert one.agree(0, 15) == [0, 15]
        assert one.all("x") == ["x"]
        (state,) = one.gather_states({"model": torch.ones(2, device="cuda"), "step": 3})
        assert not state["model"].is_cuda
        assert one.scatter_states([state])["step"] == 3
    finally:
        dist.destroy_process_group()
