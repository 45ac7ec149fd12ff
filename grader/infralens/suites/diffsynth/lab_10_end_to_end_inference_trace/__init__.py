"""The suite of lab 10. `given` makes pipelines on both sides; `watching` has the instruments."""
