"""A real Kubernetes cluster for tests: etcd, API server, controllers, scheduler, two nodes with containerd.

``python -m tests.cluster up`` starts one and leaves it running. In tests: the fixtures of ``fixtures``.

The control plane runs on this machine. Each node is a set of namespaces (processes, mounts, network) around its own
containerd and kubelet, wired to a bridge. Ending the first process of a node ends every container on it and takes its
mounts, interfaces and packet filter rules away, so a cluster leaves nothing behind even if its starter is killed.

Two programs are built for it from the Go module proxy (``binary``): ``kubernetes/``, which is every part of Kubernetes,
and ``policies/``, the network policy agent. The rest is Debian's: containerd, runc, network plug-ins, iptables.

Network policies are judged in user space: an iptables rule on each node hands the first packet of each connection to
the agent. The agent tries to make such rules with nftables too and says once a second that it cannot, where the kernel
has no queue for nftables.
"""
