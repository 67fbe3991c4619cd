"""Optimizers that combine the gradients of several workers, each in a package of its own."""
