"""The walls around a submission: how its processes are started, watched, shut in and killed."""
