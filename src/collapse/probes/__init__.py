"""Measurements at initialization: nothing is trained, the stack is drawn layer by layer and looked at."""
