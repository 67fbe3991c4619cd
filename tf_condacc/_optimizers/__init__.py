"""Optimizers that combine the gradients of several workers, each in its own package."""
