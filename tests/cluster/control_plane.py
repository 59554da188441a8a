"""The control plane: etcd, API server, controllers and scheduler, as processes of this machine."""

from pathlib import Path

from tests.cluster.certificates import Authority
from tests.cluster.settings import NODES, Layout

PARTS = ("etcd", "apiserver", "controllers", "scheduler")
NODE_GRACE_SECONDS = 20
"""How long a node may be silent before it is NotReady. Kubernetes' own default is 50: too long to wait in tests."""


def write_identities(layout: Layout) -> Path:
    """Write certificates and kubeconfig files for everybody; returns the administrator's."""
    authority = Authority(layout.path("certificates"))
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
    hosts = [layout.host_ip, layout.first_service_ip, "127.0.0.1", *names]
    authority.issue("apiserver", user="kube-apiserver", groups=["system:masters"], hosts=hosts)
    authority.issue("accounts", user="service-accounts")
    identities = {
        "admin": ("admin", ["system:masters"]),
        "controllers": ("system:kube-controller-manager", []),
        "scheduler": ("system:kube-scheduler", []),
        "proxy": ("system:kube-proxy", []),
        "policies": ("policies", ["system:masters"]),
        "provisioner": ("provisioner", ["system:masters"]),
        **{node: (f"system:node:{node}", ["system:nodes"]) for node in NODES},
    }
    for name, (user, groups) in identities.items():
        authority.issue(name, user=user, groups=groups)
        authority.write_kubeconfig(name, server=layout.api_url)
    return authority.folder / "admin.kubeconfig"


def command(part: str, layout: Layout, program: Path) -> list[str]:
    """How this part of the control plane is started."""
    flags = {
        "etcd": _etcd,
        "apiserver": _apiserver,
        "controllers": _controllers,
        "scheduler": _scheduler,
    }[part](layout)
    return [str(program), part, *flags]


def _etcd(layout: Layout) -> list[str]:
    return [
        f"-data={layout.path('etcd')}",
        f"-client=http://{layout.loopback_ip}:2379",
        f"-peer=http://{layout.loopback_ip}:2380",
    ]


def _apiserver(layout: Layout) -> list[str]:
    folder = layout.path("certificates")
    return [
        f"--etcd-servers=http://{layout.loopback_ip}:2379",
        f"--advertise-address={layout.host_ip}",
        f"--bind-address={layout.host_ip}",
        "--secure-port=6443",
        f"--service-cluster-ip-range={layout.service_network}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--client-ca-file={folder}/authority.crt",
        f"--tls-cert-file={folder}/apiserver.crt",
        f"--tls-private-key-file={folder}/apiserver.key",
        f"--kubelet-client-certificate={folder}/apiserver.crt",
        f"--kubelet-client-key={folder}/apiserver.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder}/accounts.key",
        f"--service-account-signing-key-file={folder}/accounts.key",
    ]


def _controllers(layout: Layout) -> list[str]:
    folder = layout.path("certificates")
    return [
        *_as_identity(layout, "controllers"),
        f"--root-ca-file={folder}/authority.crt",
        f"--cluster-signing-cert-file={folder}/authority.crt",
        f"--cluster-signing-key-file={folder}/authority.key",
        f"--service-account-private-key-file={folder}/accounts.key",
        "--use-service-account-credentials=true",
        f"--flex-volume-plugin-dir={layout.path('plugins')}",
        f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        "--node-monitor-period=2s",
    ]


def _scheduler(layout: Layout) -> list[str]:
    return _as_identity(layout, "scheduler")


def _as_identity(layout: Layout, name: str) -> list[str]:
    """Alone in its cluster, so it leads without an election: a restart takes a second."""
    file = layout.path("certificates", f"{name}.kubeconfig")
    return [
        f"--kubeconfig={file}",
        f"--authentication-kubeconfig={file}",
        f"--authorization-kubeconfig={file}",
        f"--bind-address={layout.loopback_ip}",
        "--leader-elect=false",
    ]
