"""A collector callback that ends the process at some later moment.

Kind: Crashing
Relies on: a grader in the same process
Breaks naive: points
"""

import gc
import os

gc.callbacks.append(lambda phase, info: os._exit(0))
gc.set_threshold(10)
