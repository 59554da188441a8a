"""JupyterHub as the benchmarks run it: its own defaults, PostgreSQL, and a trivial single-user server."""

import json
import os

c = get_config()  # type: ignore[name-defined] # noqa: F821
told = json.loads(os.environ["BENCH"])

c.JupyterHub.bind_url = f"http://127.0.0.1:{told['port']}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{told['hub_port']}"
c.JupyterHub.db_url = told["database_url"]
c.JupyterHub.cookie_secret_file = told["directory"] + "/cookie_secret"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{told['proxy_api_port']}"
c.ConfigurableHTTPProxy.command = [told["proxy"]]
c.ConfigurableHTTPProxy.pid_file = told["directory"] + "/proxy.pid"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = told["directory"] + "/homes/{username}"
c.Spawner.cmd = ["perl", told["server"]]
if (pods := told["kubernetes"]) is not None:
    c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
    c.Spawner.cmd = []  # the image's own
    c.KubeSpawner.namespace = pods["namespace"]
    c.KubeSpawner.image = pods["image"]
    c.KubeSpawner.image_pull_policy = "Never"
    c.KubeSpawner.port = pods["port"]
    c.KubeSpawner.environment = {"CODEHUB_PORT": str(pods["port"])}
    c.KubeSpawner.uid = c.KubeSpawner.gid = c.KubeSpawner.fs_gid = 1000
    c.KubeSpawner.mem_limit, c.KubeSpawner.mem_guarantee = pods["memory"], pods["memory_guarantee"]
    c.KubeSpawner.cpu_guarantee = pods["cpu_guarantee"]
    c.KubeSpawner.storage_pvc_ensure = True
    c.KubeSpawner.storage_class = pods["storage_class"]
    c.KubeSpawner.storage_capacity = pods["home_bytes"]
    c.KubeSpawner.storage_access_modes = ["ReadWriteOncePod"]
    c.KubeSpawner.volumes = [
        {"name": "home", "persistentVolumeClaim": {"claimName": "{pvc_name}"}},
    ]
    c.KubeSpawner.volume_mounts = [{"name": "home", "mountPath": pods["home"]}]
c.JupyterHub.log_level = "WARN"
c.JupyterHub.concurrent_spawn_limit = 0  # its throttle is a protection, not what is measured
c.JupyterHub.services = [{"name": "bench", "api_token": told["token"]}]
c.JupyterHub.load_roles = [
    {
        "name": "bench",
        "services": ["bench"],
        "scopes": ["admin:users", "admin:servers", "list:users", "read:users", "access:servers", "tokens"],
    }
]
