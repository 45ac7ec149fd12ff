"""Lab 07 of diffsynth: `live` asks diffusers' VAEs and pipelines, `lent` is what a learner gets."""
