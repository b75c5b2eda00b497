"""The report: everything a config's results show, on one self-contained page."""
