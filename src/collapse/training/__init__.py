"""Training: one run of the DeepSpeed engine, recorded step by step, resumable at any moment."""
