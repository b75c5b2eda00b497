#!/bin/sh
# State of a Slurm job for Snakemake: running, success or failed.
exec python -m collapse.launch.slurm "$1"
