"""What stored runs and datasets show: transitions, the table of runs, statistics. Never imports torch."""
