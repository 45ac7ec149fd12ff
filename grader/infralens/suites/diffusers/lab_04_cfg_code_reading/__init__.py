"""The suite of lab 04. `tiny` is a Stable Diffusion small enough to run inside a check."""
