"""What a config costs, before anything is launched: nothing here imports torch, or reads more than manifests."""
