"""The native operations: their library, and their nodes in graphs and functions."""
