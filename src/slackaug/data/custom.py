"""`module:callable`: the user's own loader, called without arguments."""

import numpy as np

from .. import foreign
from .arrays import from_arrays
from .dataset import Dataset, rebuild
from .options import DataConfig, DataError


def custom(reference: str, options: DataConfig) -> Dataset:
    """It returns a Dataset, or the arrays train_images, train_labels and perhaps test_images, test_labels."""
    result = foreign.call(reference, foreign.resolve(reference))
    if isinstance(result, Dataset):
        if options.size is not None and result.image_size != (options.size, options.size):
            raise DataError(
                f"{reference}: its images are {result.image_size}; a Dataset is not resized, resize in {reference}"
            )
        return rebuild(result)
    if not isinstance(result, tuple | list) or len(result) not in (2, 4):
        raise DataError(
            f"{reference}: expected a slackaug.data.Dataset or the arrays (train_images, train_labels[, test_images, "
            f"test_labels]), got {type(result).__name__}"
        )
    arrays = foreign.call(reference, lambda: [np.asarray(value) for value in result])
    return from_arrays(reference, (arrays[0], arrays[1]), (arrays[2], arrays[3]) if len(arrays) == 4 else None, options)
