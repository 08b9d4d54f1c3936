"""Builds and keeps the NFS roots that Maré's VMs boot from. Standard library only."""
