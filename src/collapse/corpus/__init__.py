"""Text: where it comes from, how it becomes token ids, and in what order they are trained on."""
