"""The few calls of the Kubernetes API that a cluster for tests makes itself. Blocking, raw JSON."""

import json
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml  # type: ignore[import-untyped]

Json = dict[str, Any]
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API server refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class KubernetesApi:
    """Speaks as the user of a kubeconfig with certificates inside: ours, or kind's."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
            pair.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
        self._http = httpx.Client(base_url=cluster["server"], verify=context, timeout=30, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **query: str) -> Json:
        return _json(self._http.get(path, params=query))

    def find(self, path: str) -> Json | None:
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def create(self, path: str, body: Json) -> Json:
        return _json(self._http.post(path, json=body))

    def patch(self, path: str, body: Json) -> Json:
        return _json(self._http.patch(path, content=json.dumps(body), headers={"Content-Type": MERGE}))

    def delete(self, path: str, **options: object) -> None:
        """Idempotent: what is gone stays gone."""
        answer = self._http.request("DELETE", path, json=options)
        if answer.status_code != httpx.codes.NOT_FOUND:
            _json(answer)

    @contextmanager
    def watch(self, path: str, version: str) -> Iterator[Iterator[Json]]:
        """Changes since this resource version, for as long as the server lets us listen."""
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        with self._http.stream("GET", path, params=query, timeout=httpx.Timeout(30, read=None)) as answer:
            if answer.is_error:
                answer.read()
                _json(answer)
            yield (json.loads(line) for line in answer.iter_lines() if line)


def _json(answer: httpx.Response) -> Json:
    if answer.is_error:
        raise ApiError(answer.status_code, answer.text[:500])
    return json.loads(answer.text or "{}") if answer.text.startswith("{") else {"text": answer.text}


def _decoded(data: str) -> str:
    return b64decode(data).decode()
