"""Sample images, built without any tool and pushed through a registry's HTTP API."""

import base64
import functools
import gzip
import hashlib
import http.client
import io
import json
import re
import secrets
import shutil
import tarfile
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"

_PUSHED_AT_ONCE = 4
_CREATED = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class LayerBlob:
    """A layer as it is pushed. `diff_id` is the digest of the uncompressed tar."""

    blob: bytes
    diff_id: str
    compressed: bool

    @property
    def digest(self) -> str:
        """The digest of the blob."""
        return digest(self.blob)

    @property
    def size(self) -> int:
        """Bytes of the blob."""
        return len(self.blob)


@dataclass(frozen=True)
class Pushed:
    """What stands in the registry now. `root_digest` is a manifest's or an index's digest."""

    root_digest: str
    config_digest: str
    layers: tuple[LayerBlob, ...]
    media_type: str
    size: int
    """Bytes of the manifest or index."""
    config_size: int = 0


def digest(raw: bytes) -> str:
    """`sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def layer(
    files: Mapping[str, bytes], *, links: Mapping[str, str] | None = None, compress: bool = True
) -> LayerBlob:
    """A layer of executable files (path: content) and symbolic links (path: target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
        for path, target in (links or {}).items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    raw = buffer.getvalue()
    blob = gzip.compress(raw, compresslevel=1, mtime=0) if compress else raw
    return LayerBlob(blob, digest(raw), compress)


def random_layer(name: str, size: int) -> LayerBlob:
    """A layer of one file of `size` bytes that nobody has seen before and nothing compresses."""
    return layer({name: secrets.token_bytes(size)})


@functools.cache
def busybox_layer() -> LayerBlob:
    """This machine's busybox, enough for containers that run `sh` and `sleep`."""
    busybox = shutil.which("busybox")
    assert busybox is not None, "busybox is not installed"
    links = {f"bin/{name}": "busybox" for name in ("sh", "sleep", "true", "cat", "echo")}
    return layer({"bin/busybox": Path(busybox).read_bytes()}, links=links)


def push(
    host: str,
    repository: str,
    tag: str,
    layers: Sequence[LayerBlob],
    *,
    architecture: str = "amd64",
    os: str = "linux",
    variant: str = "",
    labels: Mapping[str, str] | None = None,
    cmd: Sequence[str] | None = None,
    oci: bool = False,
    credentials: tuple[str, str] | None = None,
) -> Pushed:
    """Push one image as `host/repository:tag`; its command sleeps for an hour by default."""
    config: dict[str, Any] = {
        "os": os,
        "architecture": architecture,
        "created": _CREATED,
        "config": {
            "Cmd": list(cmd or ("/bin/busybox", "sleep", "3600")),
            "Env": ["PATH=/bin"],
            "Labels": dict(labels or {}),
        },
        "rootfs": {"type": "layers", "diff_ids": [each.diff_id for each in layers]},
        "history": [{"created": _CREATED, "created_by": f"layer {n}"} for n in range(len(layers))],
    }
    if variant:
        config["variant"] = variant
    config_raw = json.dumps(config).encode()
    with Pusher(host, credentials) as pusher:
        descriptors = [
            {
                "mediaType": _layer_type(each, oci=oci),
                "size": each.size,
                "digest": pusher.blob(repository, each.blob),
            }
            for each in layers
        ]
        media_type = OCI_MANIFEST if oci else DOCKER_MANIFEST
        manifest = {
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": {
                "mediaType": OCI_CONFIG if oci else DOCKER_CONFIG,
                "size": len(config_raw),
                "digest": pusher.blob(repository, config_raw),
            },
            "layers": descriptors,
        }
        raw = json.dumps(manifest).encode()
        root = pusher.manifest(repository, tag, raw, media_type)
    return Pushed(root, digest(config_raw), tuple(layers), media_type, len(raw), len(config_raw))


def push_index(
    host: str,
    repository: str,
    tag: str,
    images: Mapping[tuple[str, str, str], Pushed],
    *,
    oci: bool = False,
    credentials: tuple[str, str] | None = None,
) -> Pushed:
    """Push an index of images of this repository, each by its (os, architecture, variant)."""
    media_type = OCI_INDEX if oci else DOCKER_LIST
    index = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "manifests": [
            {
                "mediaType": image.media_type,
                "size": image.size,
                "digest": image.root_digest,
                "platform": {"os": os, "architecture": architecture}
                | ({"variant": variant} if variant else {}),
            }
            for (os, architecture, variant), image in images.items()
        ],
    }
    raw = json.dumps(index).encode()
    with Pusher(host, credentials) as pusher:
        root = pusher.manifest(repository, tag, raw, media_type)
    return Pushed(root, "", (), media_type, len(raw))


def push_many(host: str, repository: str, count: int, *, differing: int) -> None:
    """Push tags `v0`, `v1`, …: `differing` manifests of one small layer and config, in turn."""
    pushed = push(host, repository, "base", [layer({})])
    config, (only,) = pushed.config_digest, pushed.layers

    def manifest(number: int) -> bytes:
        return json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": OCI_MANIFEST,
                "config": {"mediaType": OCI_CONFIG, "size": pushed.config_size, "digest": config},
                "layers": [
                    {
                        "mediaType": _layer_type(only, oci=True),
                        "size": only.size,
                        "digest": only.digest,
                    }
                ],
                "annotations": {"number": str(number % differing)},
            }
        ).encode()

    def put(numbers: Sequence[int]) -> None:
        with Pusher(host) as pusher:
            for number in numbers:
                pusher.manifest(repository, f"v{number}", manifest(number), OCI_MANIFEST)

    with ThreadPoolExecutor(_PUSHED_AT_ONCE) as threads:
        shares = [range(start, count, _PUSHED_AT_ONCE) for start in range(_PUSHED_AT_ONCE)]
        list(threads.map(put, shares))


class Pusher:
    """One connection to a registry; signs in with a password or a token as it is asked to."""

    def __init__(self, host: str, credentials: tuple[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection(host, timeout=60)
        self._basic = (
            "Basic " + base64.b64encode(":".join(credentials).encode()).decode()
            if credentials
            else None
        )
        self._authorization = self._basic

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def blob(self, repository: str, raw: bytes) -> str:
        """Upload a blob unless it is there; its digest."""
        name = digest(raw)
        if self._request("HEAD", f"/v2/{repository}/blobs/{name}")[0] == http.HTTPStatus.OK:
            return name
        status, headers, text = self._request("POST", f"/v2/{repository}/blobs/uploads/")
        assert status == http.HTTPStatus.ACCEPTED, text
        upload = urlsplit(headers["Location"])
        query = f"{upload.query}&digest={name}" if upload.query else f"digest={name}"
        status, _, text = self._request(
            "PUT", f"{upload.path}?{query}", raw, "application/octet-stream"
        )
        assert status == http.HTTPStatus.CREATED, text
        return name

    def manifest(self, repository: str, reference: str, raw: bytes, media_type: str) -> str:
        """Put a manifest or an index under a tag or a digest; its digest."""
        status, _, text = self._request(
            "PUT", f"/v2/{repository}/manifests/{reference}", raw, media_type
        )
        assert status == http.HTTPStatus.CREATED, text
        return digest(raw)

    def _request(
        self, method: str, path: str, body: bytes | None = None, media_type: str | None = None
    ) -> tuple[int, Message, bytes]:
        answer = self._send(method, path, body, media_type)
        challenge = answer[1].get("WWW-Authenticate", "")
        if answer[0] == http.HTTPStatus.UNAUTHORIZED and challenge.startswith("Bearer "):
            self._authorization = "Bearer " + self._token(challenge)
            answer = self._send(method, path, body, media_type)
        return answer

    def _send(
        self, method: str, path: str, body: bytes | None, media_type: str | None
    ) -> tuple[int, Message, bytes]:
        headers = {"Content-Type": media_type} if media_type else {}
        if self._authorization:
            headers["Authorization"] = self._authorization
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.headers, response.read()

    def _token(self, challenge: str) -> str:
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        realm = fields.pop("realm")
        request = urllib.request.Request(f"{realm}?{urlencode(fields)}")
        if self._basic:
            request.add_header("Authorization", self._basic)
        with urllib.request.urlopen(request, timeout=60) as response:
            return str(json.load(response)["token"])


def _layer_type(blob: LayerBlob, *, oci: bool) -> str:
    if oci:
        return "application/vnd.oci.image.layer.v1.tar" + ("+gzip" if blob.compressed else "")
    return "application/vnd.docker.image.rootfs.diff.tar" + (".gzip" if blob.compressed else "")
