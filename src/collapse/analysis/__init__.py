"""Analysis: what the stored runs show. Reads stores, never torch."""
