"""One run of a suite: its checks, what came of each, and the proofs that the run is sound."""
