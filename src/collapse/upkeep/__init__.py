"""What `collapse plan`, `runs`, `gc` and `verify` do with what lies on disk. Imports no torch."""
