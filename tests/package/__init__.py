"""Tests of the package as a whole: what it publishes."""
