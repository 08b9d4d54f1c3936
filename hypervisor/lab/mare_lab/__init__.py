"""The lab: a cluster of hosts on one machine, each in its own namespaces. Standard library only."""
