"""What an agent saw of an image, judged here."""

from wharfinger.contracts.wire import ImageEvidence
from wharfinger.domain.failures import Failure
from wharfinger.domain.identity import shortcoming
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference


def lacking(
    evidence: ImageEvidence,
    reference: Reference,
    root_digest: str,
    host: Platform,
    *,
    tag_matters: bool,
) -> Failure | None:
    """What keeps it from being `reference` at `root_digest`, or None; see `shortcoming`."""
    return shortcoming(
        reference,
        root_digest,
        host,
        tags=evidence.tags,
        digests=evidence.digests,
        image=Platform.parse(evidence.os, evidence.architecture, evidence.variant),
        tag_matters=tag_matters,
    )
