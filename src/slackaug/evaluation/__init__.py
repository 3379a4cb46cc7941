"""Evaluations: several policies trained and tested under one protocol, with intervals and one plain sentence."""
