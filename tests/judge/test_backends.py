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


class Seen:
    """A watcher that remembers."""

    def __init__(self):
        self.shares, self.finished, self.remarks = [], [], []

    def progress(self, shares):
        self.shares.append(list(shares))

    def done(self, index):
        self.finished.append(index)

    def remark(self, text):
        self.remarks.append(text)


def write(path: Path, report) -> None:
    report(0.5)
    path.write_text(str(os.getpid()))


def fail(error: type[Exception], report) -> None:
    raise error("it was too large")


def die_at_first(path: Path, report) -> None:
    """Killed as by the system, the first time."""
    if not path.exists():
        path.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    path.write_text("second")


def always_die(report) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_signal(path: Path, report) -> None:
    with signals() as caught:
        path.with_suffix(".ready").write_text("")
        while not caught:
            time.sleep(0.01)
    path.write_text("saved")
    raise Stopped("stopped", caught[0])


@pytest.fixture(params=["in turn", "processes"])
def backend(request):
    return InTurn() if request.param == "in turn" else Processes(2)


def test_all_jobs_are_done_and_seen(backend, tmp_path):
    seen = Seen()
    paths = [tmp_path / str(i) for i in range(3)]
    backend.run([partial(write, path) for path in paths], ["a", "b", "c"], seen)
    assert all(path.exists() for path in paths)
    assert sorted(seen.finished) == [0, 1, 2]
    assert seen.shares[-1] == [1, 1, 1]
    is_elsewhere = {path.read_text() for path in paths} != {str(os.getpid())}
    assert is_elsewhere == isinstance(backend, Processes)


def test_one_that_fails_does_not_keep_the_others_from_being_done(backend, tmp_path):
    jobs = [partial(fail, RuntimeError), partial(write, tmp_path / "x")]
    with pytest.raises(BackendError, match=r"1 of 2 failed, the others are saved:\n  bad: it was too large"):
        backend.run(jobs, ["bad", "good"], Seen())
    assert (tmp_path / "x").exists()


def test_wrong_input_ends_it_at_once(backend):
    with pytest.raises(ValueError, match="it was too large"):
        backend.run([partial(fail, ValueError)], ["bad"], Seen())


def fail_to_write(report) -> None:
    raise OSError(28, "No space left on device", "/x/y")


def test_a_disk_that_fails_is_the_same_error_everywhere(backend):
    with pytest.raises(OSError, match="No space left on device: '/x/y'") as failed:
        backend.run([fail_to_write], ["job"], Seen())
    assert (failed.value.errno, failed.value.filename) == (28, "/x/y")


def where(path: Path, report) -> None:
    path.write_text(os.getcwd())


def test_a_process_works_in_the_folder_of_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Processes(1).run([partial(where, Path("x"))], ["job"], Seen())
    assert (tmp_path / "x").read_text() == str(tmp_path)


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
    seen = Seen()
    with pytest.raises(Stopped) as stopped:
        InTurn().run([partial(job, tmp_path / "x"), partial(write, tmp_path / "y")], ["a", "b"], seen)
    assert stopped.value.signal_number == signal.SIGTERM
    assert seen.finished == done
    assert not list(tmp_path.iterdir())


def orphaned(folder: Path, job) -> None:
    """A parent that is killed while its job works."""
    path = folder / "job"
    team = Team([partial(job, path)], Tally(["job"], Seen()))
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
    seen = Seen()
    Processes(1).run([partial(die_at_first, tmp_path / "x")], ["job"], seen)
    assert (tmp_path / "x").read_text() == "second"
    assert seen.remarks == ["job: its process died (exit code -9); it is taken up again"]
    assert seen.finished == [0]


def test_one_that_always_dies_is_given_up():
    with pytest.raises(BackendError, match=rf"job: its process died {MAX_ATTEMPTS} times \(exit code -9\)"):
        Processes(1).run([always_die], ["job"], Seen())


def test_a_signal_lets_the_jobs_save_themselves(tmp_path):
    path = tmp_path / "x"

    def stop_when_ready():
        while not path.with_suffix(".ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop_when_ready)
    thread.start()
    with pytest.raises(Stopped) as stopped:
        Processes(1).run([partial(wait_for_signal, path)], ["job"], Seen())
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
    with pytest.raises(ValueError, match=r"--backend ray needs Ray: pip install 'slackaug\[ray\]'"):
        Ray(None, 0, 1)


def test_a_cluster_that_cannot_be_reached_is_found_out_at_once():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]  # nobody listens
        with pytest.raises(BackendError, match=f"--address 127.0.0.1:{port}: no Ray cluster can be reached there"):
            on_ray.check_reachable(f"127.0.0.1:{port}")


def test_an_address_without_a_port_is_refused():
    with pytest.raises(ValueError, match=r"expected HOST:PORT of a Ray cluster, such as 10\.0\.0\.5:6379, or auto"):
        on_ray.check_reachable("cluster")


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


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_on_ray_nothing_is_asked_for_that_is_not_there(ray, tmp_path, monkeypatch):
    """Ray would wait for it for ever."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BackendError, match="no machine of the Ray cluster has a GPU"):
        Ray(None, 1, 1)
    found = Ray(None, 0, 64)
    assert found.n_cpus == 1
    seen = Seen()
    found.run([partial(write, tmp_path / "x"), partial(where, Path("y"))], ["a", "b"], seen)
    assert (tmp_path / "y").read_text() == str(tmp_path)  # a job works in the folder of the command
    assert sorted(seen.finished) == [0, 1]
    assert seen.shares[-1] == [1, 1]


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_on_ray_errors_are_as_everywhere(ray, tmp_path):
    found = Ray(None, 0, 1)
    with pytest.raises(BackendError, match=r"1 of 2 failed, the others are saved:\n  bad: it was too large"):
        found.run([partial(fail, RuntimeError), partial(write, tmp_path / "x")], ["bad", "good"], Seen())
    assert (tmp_path / "x").exists()
    with pytest.raises(ValueError, match="it was too large"):
        found.run([partial(fail, ValueError)], ["bad"], Seen())
    with pytest.raises(OSError, match="No space left on device"):
        found.run([fail_to_write], ["bad"], Seen())
