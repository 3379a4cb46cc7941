"""Jobs that succeed, fail, die and are stopped, in turn and in processes."""

import os
import signal
import socket
import threading
import time
from functools import partial
from pathlib import Path

import pytest

import tiny
from slackaug.exits import Stopped, signals
from slackaug.judge.backends import get_backend
from slackaug.judge.backends import ray as on_ray
from slackaug.judge.backends.jobs import MAX_ATTEMPTS, BackendError, Tally
from slackaug.judge.backends.local import InTurn, Processes, Team
from slackaug.judge.backends.ray import Ray
from slackaug.messages import comparing


class Seen:
    """A watcher that remembers."""

    def __init__(self, *names):
        self.names, self.shares, self.finished, self.remarks = names, [], [], []

    def progress(self, shares):
        self.shares.append(list(shares))

    def done(self, index):
        self.finished.append(index)

    def remark(self, text):
        self.remarks.append(text)


def write(path: Path, report) -> None:
    """The process and the folder that it works in."""
    report(0.5)
    path.write_text(f"{os.getpid()} {os.getcwd()}")


def fail(error: Exception, report) -> None:
    raise error


def die(path: Path, n: int, report) -> None:
    """Killed as by the system, the first n times."""
    attempt = len(list(path.parent.glob("attempt*")))
    (path.parent / f"attempt{attempt}").write_text("")
    if attempt < n:
        os.kill(os.getpid(), signal.SIGKILL)
    path.write_text("done")


def wait_for_signal(path: Path, report) -> None:
    with signals() as caught:
        path.with_suffix(".ready").write_text("")
        while not caught:
            time.sleep(0.01)
    path.write_text("saved")
    raise Stopped("stopped", caught[0])


@pytest.fixture(scope="module")
def ray():
    """Of one CPU, whose workers know this file."""
    import ray

    known = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, known)))
        ray.init("local", num_cpus=1, include_dashboard=False, logging_level="error", log_to_driver=False)
        yield
        ray.shutdown()


RAY = pytest.mark.ray, pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(params=["in turn", "processes", pytest.param("ray", marks=RAY)])
def backend(request):
    if request.param == "ray":
        request.getfixturevalue("ray")
        return Ray(None, 0, 64)
    return InTurn() if request.param == "in turn" else Processes(2)


def test_all_jobs_are_done_and_seen(backend, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = Seen("a", "b", "c")
    backend.run([partial(write, Path(name)) for name in "abc"], seen)
    found = [(tmp_path / name).read_text().split() for name in "abc"]
    assert {folder for _, folder in found} == {str(tmp_path)}  # a job works in the folder of the command
    assert ({process for process, _ in found} == {str(os.getpid())}) == isinstance(backend, InTurn)
    assert sorted(seen.finished) == [0, 1, 2]
    assert seen.shares[-1] == [1, 1, 1]


def test_one_that_fails_does_not_keep_the_others_from_being_done(backend, tmp_path):
    jobs = [partial(fail, RuntimeError("it was too large")), partial(write, tmp_path / "x")]
    with pytest.raises(BackendError, match=r"1 of 2 failed, the others are saved:\n  bad: it was too large"):
        backend.run(jobs, Seen("bad", "good"))
    assert (tmp_path / "x").exists()


def test_wrong_input_and_a_disk_that_fails_end_it_at_once(backend):
    with pytest.raises(ValueError, match="it was too large"):
        backend.run([partial(fail, ValueError("it was too large"))], Seen("bad"))
    with pytest.raises(OSError, match="No space left on device: '/x/y'") as failed:
        backend.run([partial(fail, OSError(28, "No space left on device", "/x/y"))], Seen("job"))
    assert (failed.value.errno, failed.value.filename) == (28, "/x/y")


def stopped_after_its_last_step(path: Path, report) -> None:
    signal.raise_signal(signal.SIGTERM)


def stopped_while_it_reads_the_data(path: Path, report) -> None:
    signal.raise_signal(signal.SIGTERM)
    with signals() as caught:
        if caught:
            raise Stopped("stopped", caught[0])
        path.write_text("")


@pytest.mark.parametrize(("job", "done"), [(stopped_after_its_last_step, [0]), (stopped_while_it_reads_the_data, [])])
def test_a_signal_ends_the_work_whether_a_job_saw_it_or_not(job, done, tmp_path):
    seen = Seen("a", "b")
    with pytest.raises(Stopped) as stopped:
        InTurn().run([partial(job, tmp_path / "x"), partial(write, tmp_path / "y")], seen)
    assert stopped.value.signal_number == signal.SIGTERM
    assert seen.finished == done
    assert not list(tmp_path.iterdir())


def orphaned(folder: Path, job) -> None:
    """A parent that is killed while its job works."""
    path = folder / "job"
    team = Team([partial(job, path)], Tally(Seen("job")))
    team.start_waiting(1)
    while not path.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def report_for_ever(path: Path, report) -> None:
    path.write_text(str(os.getpid()))
    while True:
        report(0.5)
        time.sleep(0.01)


def work_in_silence(path: Path, report) -> None:
    path.write_text(str(os.getpid()))
    time.sleep(60)


@pytest.mark.parametrize("job", [report_for_ever, work_in_silence])
def test_a_job_ends_when_its_parent_is_gone(job, tmp_path):
    process = tiny.FORK.Process(target=orphaned, args=(tmp_path, job))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    pid = int((tmp_path / "job").read_text())
    deadline = time.monotonic() + 30
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    """Not gone, and not a zombie that nobody has waited for."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_process_that_dies_is_started_again(tmp_path):
    seen = Seen("job")
    Processes(1).run([partial(die, tmp_path / "x", 1)], seen)
    assert (tmp_path / "x").read_text() == "done"
    assert seen.remarks == [comparing.died("job", -9)]
    assert seen.finished == [0]


def test_one_that_always_dies_is_given_up(tmp_path):
    with pytest.raises(BackendError, match=rf"job: its process died {MAX_ATTEMPTS} times \(exit code -9\)"):
        Processes(1).run([partial(die, tmp_path / "x", 99)], Seen("job"))
    assert len(list(tmp_path.iterdir())) == MAX_ATTEMPTS


def test_a_signal_lets_the_jobs_save_themselves(tmp_path):
    path = tmp_path / "x"

    def stop_when_ready():
        while not path.with_suffix(".ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop_when_ready)
    thread.start()
    with pytest.raises(Stopped) as stopped:
        Processes(1).run([partial(wait_for_signal, path)], Seen("job"))
    thread.join()
    assert stopped.value.signal_number == signal.SIGTERM
    assert path.read_text() == "saved"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "slurm"}, "--backend slurm: expected local or ray"),
        ({"name": "local", "address": "a:1"}, "--address is for --backend ray"),
        ({"name": "local", "n_jobs": 0}, "--jobs 0: expected at least 1"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        get_backend(**({"address": None, "n_jobs": None, "device": "cpu", "threads": 1} | options))


def test_without_ray_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(on_ray, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^--backend ray: ray is not installed; pip install ray$"):
        Ray(None, 0, 1)


def test_a_cluster_that_cannot_be_reached_is_found_out_at_once():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"  # nobody listens
        with pytest.raises(BackendError, match=f"--address {address}: no Ray cluster can be reached there"):
            on_ray.check_reachable(address)
    with pytest.raises(ValueError, match=r"expected HOST:PORT of a Ray cluster, such as 10\.0\.0\.5:6379, or auto"):
        on_ray.check_reachable("cluster")


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_on_ray_nothing_is_asked_for_that_is_not_there(ray):
    """Ray would wait for it for ever."""
    with pytest.raises(BackendError, match="no machine of the Ray cluster has a GPU"):
        Ray(None, 1, 1)
    assert Ray(None, 0, 64).n_cpus == 1
