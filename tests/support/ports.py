"""Ports for servers that tests start."""

from tf_condacc.launch._ports import free_ports

__all__ = ["free_ports"]
