"""The texts are verbatim from Docker 20.10 (classic), Docker 28 (classic, containerd) and Podman."""

import pytest

from wharfinger.agent.engine.failure_texts import COMMIT_WAIT, classify
from wharfinger.domain.failures import FailureClass, Scope

NAME = "127.0.0.1:5100/lab/a"
ABSENT = "sha256:" + "ab" * 32
SUBJECT = f"{NAME}@{ABSENT}"
P = f"initializing source docker://{NAME}:v1: "
RESOLVE = f'failed to resolve reference "{NAME}:v1": '
HEAD = f"{RESOLVE}unexpected status from HEAD request to http://{NAME}/manifests/v1: "
COPY = "unknown: failed to copy: httpReadSeeker: failed open: unexpected status from GET request to"

DOCKER_RUNC = (
    "failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: "
)
PODMAN_RUNC = "runc: runc create failed: unable to start container process: "
NOT_FOUND = "OCI runtime attempted to invoke a command that was not found"
COMMANDS = [
    f'{DOCKER_RUNC}exec: "/no/such": stat /no/such: no such file or directory: unknown',
    f'{DOCKER_RUNC}exec: "/bin": permission denied: unknown',
    f'{DOCKER_RUNC}exec: "nosuch": executable file not found in $PATH: unknown',
    f'{DOCKER_RUNC}exec: "": executable file not found in $PATH: unknown',
    f'{PODMAN_RUNC}exec: "/no/such": stat /no/such: no such file or directory: {NOT_FOUND}',
    f'{PODMAN_RUNC}exec: "/bin": permission denied: OCI permission denied',
    f'{PODMAN_RUNC}exec: "nosuch": executable file not found in $PATH: {NOT_FOUND}',
]

TEXTS: dict[FailureClass, list[str]] = {
    FailureClass.NOT_FOUND: [
        f"manifest for {NAME}:nosuch not found: manifest unknown: manifest unknown",
        f"manifest for {SUBJECT} not found: manifest unknown: manifest unknown",
        "manifest unknown: manifest unknown",
        "manifest unknown",
        f"{P}reading manifest nosuch in {NAME}: manifest unknown: manifest unknown",
        f"{P}reading manifest {ABSENT} in {NAME}: manifest unknown: manifest unknown",
        f'failed to resolve reference "{NAME}:nosuch": {NAME}:nosuch: not found',
        f'failed to resolve reference "{SUBJECT}": {SUBJECT}: not found',
    ],
    FailureClass.AUTH: [
        'Head "http://127.0.0.1:5101/v2/priv/a/manifests/v1": no basic auth credentials',
        "unauthorized: authentication required",
        "unauthorized",
        f"{P}reading manifest v1 in 127.0.0.1:5101/priv/a: unauthorized: authentication required",
        (
            f"pull access denied for {NAME}, repository does not exist or may require "
            "'docker login': denied: lab denied"
        ),
        f"pull access denied for {NAME}, repository does not exist or may require 'docker login'",
        "denied: odd answer",
        (
            "reading blob sha256:abab: unable to retrieve auth token: invalid username/password: "
            "unauthorized"
        ),
        (
            f"{RESOLVE}pull access denied, repository does not exist or may require authorization: "
            "authorization failed: no basic auth credentials"
        ),
        f"unknown: {HEAD}401 Unauthorized",
        f"unknown: {HEAD}403 Forbidden",
        f"{COPY} http://127.0.0.1:5600/v2/x/blobs/{ABSENT}: 401 Unauthorized",
        "error from registry: lab denied",
        "login attempt to http://127.0.0.1:5101/v2/ failed with status: 401 Unauthorized",
    ],
    FailureClass.RATE_LIMITED: [
        "toomanyrequests: lab says 429",
        f"{P}reading manifest v1 in {NAME}: toomanyrequests: lab says 429",
        f"{P}too many requests to registry",
        "toomanyrequests: lab limit",
        (
            "error parsing HTTP 429 response body: invalid character 's' looking for beginning of "
            'value: "slow down"'
        ),
        "reading blob sha256:abab: too many requests to registry",
        f"unknown: {HEAD}429 Too Many Requests",
        "error from registry: lab says 429",
        "toomanyrequests: You have reached your pull rate limit.",
    ],
    FailureClass.NETWORK: [
        'Get "http://127.0.0.1:5199/v2/": dial tcp 127.0.0.1:5199: connect: connection refused',
        (
            "pinging container registry 127.0.0.1:5199: "
            'Get "https://127.0.0.1:5199/v2/": dial tcp 127.0.0.1:5199: connect: connection refused'
        ),
        (
            'Get "http://127.0.0.1:5199/v2/": net/http: request canceled '
            "(Client.Timeout exceeded while awaiting headers)"
        ),
        'Get "https://10.9.9.9:5100/v2/": http: server gave HTTP response to HTTPS client',
        (
            'pinging container registry 10.9.9.9:5100: Get "https://10.9.9.9:5100/v2/": '
            "http: server gave HTTP response to HTTPS client"
        ),
        'Get "https://10.9.9.9:5443/v2/": x509: certificate signed by unknown authority',
        'Get "https://10.9.9.9:5100/v2/": dial tcp 10.9.9.9:5100: connect: network is unreachable',
        (
            'Get "https://registry.invalid/v2/": dial tcp: lookup registry.invalid on 10.0.0.1:53: '
            "no such host"
        ),
        "unexpected EOF",
        "dial tcp 127.0.0.1:5131: connect: connection refused",
        "dial tcp 127.0.0.1:5110: i/o timeout",
        f"{P}pinging container registry 127.0.0.1:5110: i/o timeout",
        (
            'writing blob: storing blob to file "/var/tmp/storage212981753/1": '
            "happened during read: unexpected EOF"
        ),
        (
            f"{RESOLVE}failed to do request: "
            'Head "https://127.0.0.1:5699/v2/x/manifests/v1": dial tcp 127.0.0.1:5699: connect: '
            "connection refused"
        ),
        (
            f'{RESOLVE}failed to do request: Head "https://registry.invalid/v2/x/manifests/v1": '
            "dial tcp: lookup registry.invalid on 10.0.0.1:53: no such host"
        ),
        "short read: expected 419472668 bytes but got 125778943: unexpected EOF",
        (
            f'{RESOLVE}failed to do request: Head "https://127.0.0.1:5699/v2/x/manifests/v1": '
            "tls: first record does not look like a TLS handshake"
        ),
    ],
    FailureClass.REGISTRY_ERROR: [
        "received unexpected HTTP status: 503 Service Unavailable",
        "received unexpected HTTP status: 500 Internal Server Error",
        (
            "error pulling image configuration: download failed after attempts=6: "
            "received unexpected HTTP status: 500 Internal Server Error"
        ),
        f"{P}invalid status code from registry 503 (Service Unavailable)",
        (
            "reading blob sha256:abab: Error fetching blob: "
            "invalid status code from registry 500 (Internal Server Error)"
        ),
        (
            "parsing image configuration: Error fetching blob: "
            "invalid status code from registry 500 (Internal Server Error)"
        ),
        f"unknown: {HEAD}503 Service Unavailable",
        f"{COPY} http://127.0.0.1:5600/v2/x/manifests/{ABSENT}: 500 Internal Server Error",
        f"{COPY} http://127.0.0.1:5600/v2/x/blobs/{ABSENT}: 503 Service Unavailable",
        f"{COPY} http://127.0.0.1:5600/v2/x/blobs/{ABSENT}: 400 Bad Request",
        # the manifest is there and names a blob that is not
        "unknown blob",
        (
            "reading blob sha256:abab: Error fetching blob: "
            "invalid status code from registry 404 (Not Found)"
        ),
        (
            f"failed to copy: httpReadSeeker: failed open: could not fetch content descriptor {ABSENT}"
            " (application/vnd.docker.image.rootfs.diff.tar.gzip) from remote: not found"
        ),
    ],
    FailureClass.CORRUPT: [
        f"filesystem layer verification failed for digest {ABSENT}",
        (
            'writing blob: storing blob to file "/var/tmp/storage212981753/1": happened during read: '
            f"Digest did not match, expected {ABSENT}, got {ABSENT}"
        ),
        (
            "mediaType in manifest should be "
            "'application/vnd.docker.distribution.manifest.v2+json' not ''"
        ),
        f"{P}Manifest does not match provided manifest digest {ABSENT}",
        (
            f'failed commit on ref "layer-{ABSENT}": commit failed: unexpected commit digest {ABSENT}, '
            f"expected {ABSENT}: failed precondition"
        ),
        (
            f'failed commit on ref "config-{ABSENT}": commit failed: unexpected commit digest '
            f"{ABSENT}, expected {ABSENT}: failed precondition"
        ),
        f'failed commit on ref "layer-{ABSENT}": commit failed: failed size validation: 610 != 326',
    ],
    FailureClass.NO_SPACE: [
        "write /data/engine/tmp/GetImageBlob3698106322: no space left on device",
        (
            "failed to register layer: Error processing tar file(exit status 1): "
            "write /data/zero: no space left on device"
        ),
        (
            'writing blob: storing blob to file "/tmp/storage65403598/1": write /tmp/1: '
            "no space left on device"
        ),
        (
            f'writing blob: adding layer with blob "{ABSENT}": processing tar file'
            "(write /data/zero: no space left on device): exit status 1"
        ),
        (
            "failed to copy: failed to send write: write /data/io.containerd.content.v1.content/"
            "ingest/63ace3/data: no space left on device"
        ),
        (
            "failed to extract layer (application/vnd.docker.image.rootfs.diff.tar.gzip "
            f'{ABSENT}) to overlayfs as "extract-144804609-oMuJ {ABSENT}": write /data/u8_0: '
            "no space left on device"
        ),
        "write /data/image/overlay2/.tmp-repositories.json52: no space left on device",
    ],
    FailureClass.WRONG_PLATFORM: [
        "no matching manifest for linux/amd64 in the manifest list entries",
        (
            "no matching manifest for linux/amd64 in the manifest list entries: "
            "no match for platform in manifest: not found"
        ),
        (
            f"choosing an image from manifest list docker://{NAME}:v1: no image found in manifest "
            'list for architecture amd64, variant "", OS linux'
        ),
        'image operating system "windows" cannot be used on this platform',
    ],
    FailureClass.INVALID_REFERENCE: [
        "invalid tag format",
        "invalid reference format: repository name must be lowercase",
        "invalid reference format: repository name (UPPER) must be lowercase",
        "normalizing image: normalizing name for compat API: invalid reference format",
        "normalizing image: normalizing name for compat API: repository name must be lowercase",
    ],
    FailureClass.IN_USE: [
        (
            f'conflict: unable to remove repository reference "{NAME}:v1" (must force) - '
            "container 8b0fbd7c7e02 is using its referenced image e3fc1e5099f0"
        ),
        (
            "conflict: unable to delete e3fc1e5099f0 (cannot be forced) - "
            "image is being used by running container 8b0fbd7c7e02"
        ),
        (
            "conflict: unable to delete d102031e7936 (must be forced) - "
            "image is being used by stopped container 61a8d24157ce"
        ),
        (
            f"conflict: unable to delete {NAME}:v1 (must be forced) - "
            "container e99c6106b842 is using its referenced image f45dfd31ca2e"
        ),
        (
            "You cannot remove a running container ad589eee4fb0. "
            "Stop the container before attempting removal or force remove"
        ),
        (
            "cannot remove container 8a71cf3c07d7 as it is running - running or paused containers "
            "cannot be removed without force: container state improper"
        ),
        (
            f"image {NAME}:v1 is in use: image used by 248d6e79: image is in use by a container: "
            "consider listing external containers and force-removing image"
        ),
        (
            "conflict: unable to delete c21ac5502657 (must be forced) - "
            "image is referenced in multiple repositories"
        ),
        (
            f'unable to delete image "c21ac5502657" by ID with more than one tag ([{NAME}:v1]): '
            "please force removal"
        ),
        (
            "conflict: unable to delete c21ac5502657 (cannot be forced) - "
            "image has dependent child images"
        ),
    ],
    FailureClass.UNSUPPORTED: [
        "failed to register layer: max depth exceeded",
        "unsupported manifest format",
        "Unexpectedly received a manifest list instead of a manifest for a single image",
        "missing or empty Content-Length header",
        "failed size validation: 610 != 326",
        "exceeded maximum allowed size of 4194304 bytes",
        f"{RESOLVE}rejecting 6292115 byte manifest: not found",
        "client version 1.47 is too new. Maximum supported API version is 1.41",
        "client version 1.41 is too old. Minimum supported API version is 1.44",
        'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"',
        "json: cannot unmarshal string into Go struct field .expires_in of type int",
        '"foo/bar/baz/q": cannot parse platform specifier: invalid argument',
        *COMMANDS,
        "No command specified",
        (
            "container create: no command or entrypoint provided, and no CMD or ENTRYPOINT from "
            "image"
        ),
        "unable to find user nobody: no matching entries in passwd file",
        "Cannot mkdir: /bin/sh is not a directory",
        f'workdir "/bin/sh" exists on container {"bd" * 32}, but is not a directory',
        "invalid environment variable: =x",
        'fill out specgen: invalid environment variable: "=x"',
        (
            f"{DOCKER_RUNC}error during container init: environment variable value can't contain "
            'null(\\x00): "A=x\\x00y": unknown'
        ),
        'could not select device driver "" with capabilities: [[gpu]]',
        "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available",
        "configured logging driver does not support reading",
        (
            "failed to obtain logs for Container 'nolog': this container is using the 'none' log "
            "driver, cannot read logs: this container is not logging output"
        ),
    ],
    FailureClass.NOT_AN_IMAGE: [
        'unsupported media type "application/vnd.cncf.helm.config.v1+json"',
        'Encountered remote "application/vnd.cncf.helm.config.v1+json"(unknown) when fetching',
        "invalid rootfs in image configuration",
    ],
    FailureClass.INTERNAL: [
        (
            f'failed to parse "X-Registry-Auth" header for /images/create?fromImage={NAME}: '
            "illegal base64 data at input byte 67"
        ),
    ],
    FailureClass.ENGINE_ERROR: [
        f"No such image: {NAME}:v1",
        f"no such image: {NAME}: No such image: {NAME}",
        f"failed to find image {NAME}:v1: {NAME}:v1: image not known",
        "reference does not exist",
        (
            'Unavailable: connection error: desc = "transport: Error while dialing: '
            'dial unix /data/containerd.sock: connect: connection refused"'
        ),
        "failed to copy: failed to send write: EOF",
        (
            f'failed commit on ref "layer-{ABSENT}": commit failed: rename /data/ingest/46b5/data '
            f"/data/blobs/sha256/abab: no such file or directory"
        ),
        f'writing blob: adding layer with blob "{ABSENT}": layer not known',
        "unable to remove filesystem for 61a8: unlinkat /data/x: operation not permitted",
        "open /data/tmp/x: permission denied",
        "No such container: nosuch",
        'no container with name or ID "nosuch" found: no such container',
        (
            f'Conflict. The container name "/aa" is already in use by container "{"06" * 32}". '
            "You have to remove (or rename) that container to be able to reuse that name."
        ),
        (
            'container create: creating container storage: the container name "aa" is already in '
            f"use by {'ab' * 32}. You have to remove that container to be able to reuse that name: "
            "that name is already in use"
        ),
        (
            f"{DOCKER_RUNC}error during container init: error setting cgroup config for procHooks "
            'process: failed to write "100": write /sys/fs/cgroup/cpu/docker/8639/cpu.cfs_quota_us: '
            "invalid argument: unknown"
        ),
        "crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied",
        (
            "crun: cgroups in hybrid mode not supported, drop all controllers from cgroupv2: "
            "OCI runtime error"
        ),
        "container is marked for removal and cannot be started",
        "can not get logs from container which is dead or marked for removal",
        "something nobody has seen before",
        "",
    ],
}


@pytest.mark.parametrize(
    ("expected", "text"), [(each, text) for each, texts in TEXTS.items() for text in texts]
)
def test_real_texts_are_classed_and_kept(expected: FailureClass, text: str) -> None:
    failure = classify(text, SUBJECT)
    assert failure.failure_class is expected
    assert failure.detail == text
    assert failure.message


@pytest.mark.parametrize(
    "name", ["127.0.0.1:429/denied", "127.0.0.1:5100/eof/unauthorized", "r.example/x509"]
)
def test_an_images_own_name_is_no_reason(name: str) -> None:
    text = f"manifest for {name}@{ABSENT} not found: manifest unknown: manifest unknown"
    assert classify(text, f"{name}@{ABSENT}").failure_class is FailureClass.NOT_FOUND
    text = f'Get "http://{name}/v2/": received unexpected HTTP status: 503 Service Unavailable'
    assert classify(text, f"{name}@{ABSENT}").failure_class is FailureClass.REGISTRY_ERROR


def test_an_ipv6_registry_is_unsupported_where_the_engine_cannot_name_it() -> None:
    failure = classify("invalid reference format", f"[::1]:5992/odd/plain@{ABSENT}")
    assert failure.failure_class is FailureClass.UNSUPPORTED
    assert failure.message == "this engine cannot name an IPv6 registry"


@pytest.mark.parametrize("text", COMMANDS)
def test_a_command_that_cannot_be_run_is_told_of_the_image(text: str) -> None:
    failure = classify(text)
    assert failure.message.startswith("the command cannot be run in this image")
    assert failure.scope is Scope.AGENT


def test_denied_names_both_possibilities() -> None:
    message = classify("denied: odd answer").message
    assert "no access" in message
    assert "no such repository" in message


def test_the_containerd_store_is_given_time_to_drop_a_corrupt_blob() -> None:
    text = TEXTS[FailureClass.CORRUPT][4]
    assert classify(text).retry_after == COMMIT_WAIT


def test_what_no_rule_knows_is_told_in_the_engines_own_words() -> None:
    failure = classify("something\nnobody  has seen " + "x" * 1000)
    assert failure.failure_class is FailureClass.ENGINE_ERROR
    assert failure.message.startswith("the engine could not do it: something nobody has seen xxx")
    assert len(failure.message) < 400
    assert failure.detail.endswith("x" * 1000)
