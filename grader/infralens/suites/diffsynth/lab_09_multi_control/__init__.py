"""The suite of diffsynth/09: checks in the tests, what diffusers does in `live`."""
