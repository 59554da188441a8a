"""The whole of CodeHub on the cluster of a test: the settings its own command is given."""

import json
from typing import Any

from tests.support.docker_images import image
from tests.support.kubernetes_environment import HOME, PORT, KubernetesEnvironment
from tests.support.people import QUICK


def product_variables(environment: KubernetesEnvironment) -> dict[str, Any]:
    images = {"tiny": {"image": image("tiny"), "port": PORT, "home": HOME, "pull_policy": "Never"}}
    return {
        **QUICK,
        **environment.store.variables(environment.bucket),
        "RECONCILER_RETRY_BACKOFF": "1",
        "CODEHUB_RUNTIME": "kubernetes",
        "KUBECONFIG": str(environment.kubeconfig),
        "CODEHUB_KUBERNETES_NAMESPACE": environment.namespace,
        "CODEHUB_KUBERNETES_IMAGES": json.dumps(images),
        "CODEHUB_KUBERNETES_JOB_IMAGE": image("job"),
        "CODEHUB_KUBERNETES_STORAGE_CLASS": "network",
        "CODEHUB_KUBERNETES_HOME_SIZE": "16m",
        "CODEHUB_KUBERNETES_LIMIT_MEMORY": "64m",
        "CODEHUB_KUBERNETES_REQUEST_MEMORY": "16m",
    }
