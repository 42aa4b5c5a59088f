"""What a removal of a reference would take away."""

from wharfinger.agent.engine.port import Engine, LocalImage
from wharfinger.domain.identity import tag_name
from wharfinger.domain.references import Reference


async def resolve(engine: Engine, reference: Reference) -> LocalImage | None:
    """The image there under this reference, if there is anything to remove.

    Raises `EngineError`.
    """
    image = None
    if tag := tag_name(reference):
        image = await engine.inspect(tag)
    if reference.digest and (image is None or not _at(image, reference)):
        # the tag is elsewhere by now; what was pulled for this reference may still be there
        image = await engine.inspect(reference.pinned(reference.digest))
    return image if image is not None and doomed(reference, image) else None


def doomed(reference: Reference, image: LocalImage) -> tuple[str, ...]:
    """The names of the image that go when `reference` is removed, tags before digests.

    * `repo:tag` goes alone while the repository has other tags on the image. With its last tag its
      digest references go too: a pull made them, nobody else would ever remove them, and they
      would hold the layers.
    * `repo@digest` is every name of that repository.
    * `repo:tag@digest` is `repo:tag` as long as that is at the digest.
    """
    tags = tuple(tag for tag in image.tags if tag.rpartition(":")[0] == reference.name)
    digests = tuple(each for each in image.digests if each.rpartition("@")[0] == reference.name)
    wanted = tag_name(reference)
    if wanted is None:
        return (*tags, *digests)
    going = tuple(tag for tag in tags if tag == wanted)
    if not going and reference.digest is None:
        return ()
    return going if len(tags) > len(going) else (*going, *digests)


def _at(image: LocalImage, reference: Reference) -> bool:
    return f"{reference.name}@{reference.digest}" in image.digests
