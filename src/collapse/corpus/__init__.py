"""Text: its sources, its token ids, and the order in which runs train on them."""
