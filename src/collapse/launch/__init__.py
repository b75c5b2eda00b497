"""Processes of a training: its command, launcher, nodes, locks, GPU leases, deadline and Slurm job."""
