"""The fast way on a GPU: passes over groups of images, kernels of our own, and steps captured as graphs.

Read `fast`, which is that way; `grouped`, one pass over several composites; `graphs`, the capture. The others compute
one thing each, in a kernel (`*_kernel`, Triton) or, where that cannot run, as it is written.
"""
