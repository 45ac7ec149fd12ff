"""The suite of lab 02. `live` is what the libraries load; `given` lives beside the submission."""
