"""The examiner as a process: asked over pipes, answering with signed lines."""
