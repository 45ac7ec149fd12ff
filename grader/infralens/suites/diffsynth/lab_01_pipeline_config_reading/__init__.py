"""The suite of lab 01. `live` is what diffusers makes of a config."""
