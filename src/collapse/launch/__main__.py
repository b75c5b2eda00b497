"""Train a run: `python -m collapse.launch JOB_JSON`, where JOB_JSON is a `TrainingJob`."""

import sys

from collapse.errors import run_stage
from collapse.launch.command import train
from collapse.launch.job import read_job

if __name__ == "__main__":
    run_stage(lambda: train(read_job(sys.argv[1:])))
