"""Studies: several searches on different splits, several evaluations of each, beside the figures of the paper."""
