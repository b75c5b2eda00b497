"""Everything that the workflow derives from the config alone, without torch or data."""
