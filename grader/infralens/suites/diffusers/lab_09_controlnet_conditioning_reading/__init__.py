"""The suite of lab 09. `nets` holds networks small enough to run inside a check."""
