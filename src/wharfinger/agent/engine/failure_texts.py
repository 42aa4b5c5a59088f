"""What an engine's error text means: its class, and a sentence a person can act on.

Only the text counts. Engines answer 500 for a wrong password, a dead network and a rate limit
alike, and 404 for "pull access denied"; Podman sends most errors under 200. The texts are those of
Docker 20.10, Docker 28 (classic and containerd store) and Podman 4.3.
"""

import re
from dataclasses import dataclass
from typing import Final

from wharfinger.domain.failures import Failure, FailureClass

COMMIT_WAIT: Final = 2.0
"""Seconds the containerd store may keep a corrupt blob and fail with it again."""


@dataclass(frozen=True, slots=True)
class _Rule:
    failure_class: FailureClass
    message: str
    texts: re.Pattern[str]
    retry_after: float | None = None


def _rule(
    failure_class: FailureClass, message: str, *texts: str, retry_after: float | None = None
) -> _Rule:
    return _Rule(failure_class, message, re.compile("|".join(texts), re.IGNORECASE), retry_after)


# The first rule that fits decides, so what is particular stands before what is general: a text
# often ends in a general word ("…: not found", "…: EOF") that is not the reason.
_RULES: Final = (
    _rule(
        FailureClass.UNSUPPORTED,
        "the command cannot be run in this image: "
        "the image has no such program, or it may not be executed",
        r"start(?:ing)? container process(?: caused)?: exec: ",
        r"attempted to invoke a command that was not found",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "the image has no command of its own, and none was asked for",
        r"no command specified",
        r"no command or entrypoint provided",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "the image names a user that it does not have",
        r"unable to find user .*: no matching entries in passwd file",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "the working directory of the image is no directory",
        r"cannot mkdir: \S+ is not a directory",
        r"workdir .* is not a directory",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "a variable of the environment has no name, or a zero byte in it",
        r"invalid environment variable",
        r"environment variable value can't contain null",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "the engine cannot give GPUs to containers: install the GPU vendor's container toolkit on "
        "this host, or ask for none",
        r"could not select device driver .*\bgpu\b",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "this host has fewer processors than were asked for",
        r"range of CPUs is from",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "the engine keeps no log of this container (its log driver cannot be read)",
        r"logging driver does not support reading",
        r"log driver, cannot read logs",
    ),
    _rule(
        FailureClass.NO_SPACE,
        "the disk of this host is full: free space where its engine keeps images",
        r"no space left on device",
        r"disk quota exceeded",
    ),
    _rule(
        FailureClass.IN_USE,
        "a container on this host uses the image: end and remove that container first",
        r"container \w+ is using its referenced image",
        r"image is being used by (?:running|stopped) container",
        r"image is in use by a container",
        r"image used by [0-9a-f]+",
    ),
    _rule(
        FailureClass.IN_USE,
        "the container still runs",
        r"cannot remove (?:a running|a paused|container \w+ as it is)",
    ),
    _rule(
        FailureClass.IN_USE,
        "other images on this host are built on this one",
        r"image has dependent child images",
    ),
    _rule(
        FailureClass.IN_USE,
        "the image has other names on this host: take those away first",
        r"image is referenced in multiple repositories",
        r"by ID with more than one tag",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "this engine does not speak a version of the API that is needed here: update it",
        r"client version \S+ is too (?:old|new)",
    ),
    _rule(
        FailureClass.ENGINE_ERROR,
        "the engine is not allowed to do this on its own host",
        r"/\S*: permission denied",
        r"operation not permitted",
    ),
    _rule(
        FailureClass.ENGINE_ERROR,
        "the engine's own containerd is down: it is restarted by the engine within a minute",
        r"dial unix",
        r"failed to send write",
        r"error reading from server",
    ),
    _rule(
        FailureClass.ENGINE_ERROR,
        "somebody removed what this pull had fetched (a prune, or a removal that shares layers)",
        r"commit failed: rename .*: no such file or directory",
        r"layer not known",
    ),
    _rule(
        FailureClass.INTERNAL,
        "the engine could not read the credentials it was sent",
        r'failed to parse "X-Registry-Auth"',
    ),
    _rule(
        FailureClass.WRONG_PLATFORM,
        "the image does not exist for the platform of this host",
        r"no matching manifest for",
        r"no image found in (?:manifest list|image index)",
        r"no match for platform",
        r"cannot be used on this platform",
    ),
    _rule(
        FailureClass.INVALID_REFERENCE,
        "the engine does not take this for an image reference",
        r"invalid tag format",
        r"invalid reference format",
        r"repository name (?:\(\S+\) )?must be lowercase",
        r"invalid repository name",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "the image has more layers than the store of this engine can stack",
        r"max depth exceeded",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "the manifest or the config of the image is larger than this engine takes",
        r"exceeded maximum allowed size",
        r"rejecting \d+ byte manifest",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "this engine cannot take the registry's answer as it is sent: the fault is not the image's",
        r"missing or empty Content-Length header",
        r"manifest-\S* .*failed size validation",
        r"^failed size validation",
        r"parsing time ",
        r"cannot unmarshal",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "this engine cannot pull an image of this form (an index inside an index)",
        r"unsupported manifest format",
        r"unexpectedly received a manifest list",
    ),
    _rule(
        FailureClass.UNSUPPORTED,
        "this engine does not know that platform",
        r"cannot parse platform specifier",
    ),
    _rule(
        FailureClass.NOT_AN_IMAGE,
        "this is no container image (an artifact of another kind)",
        r"unsupported media type",
        r"encountered unknown type",
        r"\(unknown\) when fetching",
        r"invalid rootfs in image configuration",
        r"no processor for media-type",
        r"unsupported image-specific operation on artifact",
    ),
    _rule(
        FailureClass.CORRUPT,
        "what the registry sent is not what its digest says; if that stays, push the image again",
        r"failed commit on ref .*unexpected commit digest",
        r"failed size validation",
        retry_after=COMMIT_WAIT,
    ),
    _rule(
        FailureClass.CORRUPT,
        "what the registry sent is not what its digest says; if that stays, push the image again",
        r"filesystem layer verification failed",
        r"digest did not match",
        r"does not match provided manifest digest",
        r"manifest verification failed",
        r"mediaType in manifest should be",
    ),
    _rule(
        FailureClass.RATE_LIMITED,
        "the registry lets this host pull no more for now",
        r"too ?many ?requests",
        r"\brate limit",
        r"error parsing HTTP 429",
        r"error from registry: .*\b429\b",
    ),
    _rule(
        FailureClass.AUTH,
        "the registry asks for a user and a password, and this pull had none that it takes",
        r"no basic auth credentials",
    ),
    _rule(
        FailureClass.AUTH,
        "the registry denies it: no access with these credentials, or no such repository",
        r"pull access denied",
        r"\bunauthorized\b",
        r"authentication required",
        r"authorization failed",
        r"\bdenied\b",
        r"\b403 \(?Forbidden",
        r"error parsing HTTP 40[13]",
        r"invalid username/password",
    ),
    _rule(
        FailureClass.REGISTRY_ERROR,
        "the registry lacks a part of the image: push the image again",
        r"unknown blob",
        r"blob unknown",
        r"could not fetch content descriptor .* not found",
        r"fetching blob: .*\b404\b",
    ),
    _rule(
        FailureClass.ENGINE_ERROR,
        "the image is no longer on this host",
        r"no such image",
        r"image not known",
        r"reference does not exist",
    ),
    _rule(
        FailureClass.ENGINE_ERROR,
        "the container is no longer on this host",
        r"no such container",
    ),
    _rule(
        FailureClass.ENGINE_ERROR,
        "another container on this host has this name",
        r"container name \S+ is already in use",
    ),
    _rule(
        FailureClass.NOT_FOUND,
        "the registry has no such image",
        r"manifest unknown",
        r"name unknown",
        r"manifest for .* not found",
        r"failed to resolve reference .*: not found",
        r"\b404 \(?Not Found",
    ),
    _rule(
        FailureClass.NETWORK,
        "the engine speaks HTTPS to this registry and gets HTTP: "
        "name the registry as an insecure one in the engine's settings",
        r"server gave HTTP response to HTTPS client",
        r"first record does not look like a TLS handshake",
    ),
    _rule(
        FailureClass.NETWORK,
        "the engine does not trust the registry's certificate",
        r"x509:",
        r"tls: failed to verify",
    ),
    _rule(
        FailureClass.NETWORK,
        "the engine finds no address for the registry's name",
        r"no such host",
        r"dial tcp: lookup ",
        r"temporary failure in name resolution",
    ),
    _rule(
        FailureClass.REGISTRY_ERROR,
        "the registry answered with an error",
        r"received unexpected HTTP status",
        r"invalid status code from registry",
        r"unexpected status (?:code )?from",
        r"error from registry:",
        r"error parsing HTTP \d+",
        r"\b5\d\d (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)",
    ),
    _rule(
        FailureClass.NETWORK,
        "the engine cannot reach the registry, or lost the connection to it",
        r"connection refused",
        r"connection reset",
        r"network is unreachable",
        r"no route to host",
        r"i/o timeout",
        r"handshake timeout",
        r"broken pipe",
        r"\bEOF\b",
        r"Client\.Timeout exceeded",
        r"request canceled",
        r"context deadline exceeded",
        r"dial tcp",
    ),
)

_IN_A_SENTENCE: Final = 300
"""Characters of the engine's own words that a sentence may quote."""
_IPV6: Final = _rule(FailureClass.UNSUPPORTED, "this engine cannot name an IPv6 registry")

_URL: Final = re.compile(r'https?://[^\s"]+')
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]+")


def classify(text: str, subject: str = "") -> Failure:
    """The failure an engine's `text` means; `subject` is the reference it was asked about.

    What no rule knows is an `engine-error`, told in the engine's own words.
    """
    spoken = _without_names(text, subject)
    rule = next((rule for rule in _RULES if rule.texts.search(spoken)), None)
    if rule is None:
        words = " ".join(text.split())[:_IN_A_SENTENCE]
        return Failure(FailureClass.ENGINE_ERROR, f"the engine could not do it: {words}", text)
    if rule.failure_class is FailureClass.INVALID_REFERENCE and subject.startswith("["):
        rule = _IPV6
    return Failure(rule.failure_class, rule.message, text, rule.retry_after)


def _without_names(text: str, subject: str) -> str:
    """Without what somebody may have named `denied` or `eof`: addresses, digests, the image."""
    text = _DIGEST.sub("DIGEST", _URL.sub("URL", text))
    name = subject.partition("@")[0]
    return re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "IMAGE", text) if name else text
