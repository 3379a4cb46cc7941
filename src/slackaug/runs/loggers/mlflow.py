"""MLflow, as its environment variables say: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...files import write_atomically
from ...foreign import extra


@contextmanager
def opened(folder: Path, settings: dict[str, Any]) -> Iterator[Callable[[dict[str, float], int], None]]:
    mlflow, known = extra("mlflow"), folder / "run_id"
    earlier = known.read_text() if known.is_file() else None  # a search that is resumed continues the same run there
    with mlflow.start_run(earlier, run_name=folder.parent.resolve().name, nested=True) as there:
        if earlier is None:
            mlflow.log_params(settings)
            write_atomically(known, there.info.run_id.encode())
        yield lambda numbers, step: mlflow.log_metrics(numbers, step, run_id=there.info.run_id)
