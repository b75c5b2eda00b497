#!/bin/bash
# State of a Slurm job for Snakemake: running, success or failed. A queue that cannot be asked says nothing of its jobs.
state=$(squeue --noheader --states=all --format=%T --jobs="$1" 2>&1) || true
case "$state" in
  COMPLETED) echo success ;;
  BOOT_FAIL | CANCELLED | DEADLINE | FAILED | LAUNCH_FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED) echo failed ;;
  RECONFIG_FAIL | REVOKED | SPECIAL_EXIT | TIMEOUT | *"Invalid job id"*) echo failed ;;
  *) echo running ;;
esac
