"""The suite of lab 10. `parts` holds what its checks ask: decoders, hooks, measured networks."""
