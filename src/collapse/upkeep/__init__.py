"""The commands `collapse plan`, `runs`, `gc` and `verify`, which inspect the results on disk. Imports no torch."""
