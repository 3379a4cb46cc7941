"""A study on a Ray cluster: several searches, and the trainings that compare their policies, side by side.

    ray start --head                     # on one machine; `ray start --address HOST:PORT` on the others
    python on_ray.py HOST:PORT           # without an address, Ray is started on this machine

All machines must see the images and the folder of the results under the same paths.
"""

import sys

import slackaug

DATA, OUT = "pets", "runs/study"

if __name__ == "__main__":
    # A search, or a training, whose machine dies is started again elsewhere, from its last checkpoint.
    found = slackaug.study(
        "quick",
        OUT,
        data=DATA,
        searches=2,  # for trying it out; an answer takes four
        evaluations=2,
        backend="ray",
        address=sys.argv[1] if len(sys.argv) > 1 else None,
    )
    print(found.answer)
