"""The suite of lab 04. `tiny` holds a network, lent schedulers and watched runs of pipelines."""
