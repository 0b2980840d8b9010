"""The base image of sandboxes, made from this host without a registry: `python -m compose.image`."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compose.host_tree import HostTree, host_tree
from tangram_tasks.errors import ConfigurationError, SandboxError
from workers.docker_engine import connect
from workers.host_packages import TEST_PACKAGES

if TYPE_CHECKING:
    from docker import DockerClient

BASE_IMAGE = "tangram-base:latest"
_LABEL = "tangram.content"
_FOLDERS = {"tmp": 0o1777, "work": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755, "run": 0o755, "root": 0o755}
_ENVIRONMENT = "ENV PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8"


def build_base_image(
    tag: str = BASE_IMAGE, packages: Sequence[str] = TEST_PACKAGES, say: Callable[[str], None] = lambda _: None
) -> str:
    """Make sure that the image is there and matches this host, and return its id. A second call returns at once.

    Args:
        tag: repository and tag.
        packages: pure Python distributions of this environment to put in, with what they require.
        say: gets a line per step.

    Raises:
        ConfigurationError: the engine does not answer, or something to copy is missing here.
        SandboxError: the engine refuses the image.
    """
    repository, separator, version = tag.rpartition(":")
    if not separator or "/" in version:
        raise ConfigurationError(f"the image needs a tag, such as {tag}:latest")
    engine = connect()
    try:
        tree = host_tree(packages)
        content = tree.fingerprint()
        ready = _built(engine, tag, content)
        if ready is not None:
            say(f"{tag} is up to date")
            return ready
        say(f"collecting {len(tree.files)} files of this host")
        began = time.monotonic()
        image = _load(engine, tree, repository, version, content)
        _remove_replaced(engine)
        say(f"built {tag} in {time.monotonic() - began:.1f} s")
        return image
    finally:
        engine.close()


def write_tar(tree: HostTree, target: Path) -> None:
    """Write the tree as a tar archive owned by root. Times are kept: byte code is valid by them."""
    with tarfile.open(target, "w") as archive:
        for folder in _folders(tree):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, _FOLDERS.get(folder, 0o755)
            archive.addfile(entry)
        for place, link in tree.links.items():
            entry = tarfile.TarInfo(place)
            entry.type, entry.linkname = tarfile.SYMTYPE, link
            archive.addfile(entry)
        for place, text in tree.texts.items():
            entry = tarfile.TarInfo(place)
            entry.size, entry.mode = len(text.encode()), 0o755 if "bin" in Path(place).parts else 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
        for place, source in tree.files.items():
            with source.open("rb") as file:
                entry = archive.gettarinfo(arcname=place, fileobj=file)
                entry.type, entry.linkname = tarfile.REGTYPE, ""
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = "root"
                entry.mode = 0o755 if entry.mode & 0o100 else 0o644
                archive.addfile(entry, file)


def _folders(tree: HostTree) -> Iterator[str]:
    parents = {str(parent) for place in [*tree.files, *tree.texts, *tree.links] for parent in Path(place).parents}
    yield from sorted((parents | set(_FOLDERS)) - {"."} - set(tree.links))


def _built(engine: DockerClient, tag: str, content: str) -> str | None:
    for image in engine.images.list(filters={"label": f"{_LABEL}={content}"}):
        if tag in image.tags:
            return image.id
    return None


def _load(engine: DockerClient, tree: HostTree, repository: str, version: str, content: str) -> str:
    with tempfile.TemporaryDirectory(prefix="tangram-image-") as scratch:
        path = Path(scratch) / "root.tar"
        write_tar(tree, path)
        changes = [_ENVIRONMENT, f"LABEL {_LABEL}={content}"]
        said = engine.api.import_image(str(path), repository=repository, tag=version, changes=changes)
    last = json.loads(said.strip().splitlines()[-1])
    if "error" in last:
        raise SandboxError(f"the engine refuses the image {repository}:{version}: {last['error']}")
    return str(last["status"])


def _remove_replaced(engine: DockerClient) -> None:
    """Remove images of ours that lost their tag to a newer one; those that a container uses stay."""
    from docker.errors import APIError

    for image in engine.images.list(filters={"label": _LABEL, "dangling": True}):
        try:
            image.remove()
        except APIError as error:
            if error.status_code != 409:  # in use
                raise SandboxError(f"the replaced image {image.short_id} cannot be removed: {error}") from None


@click.command()
@click.option("--tag", default=BASE_IMAGE, show_default=True, help="Repository and tag.")
@click.option("--package", "packages", multiple=True, default=TEST_PACKAGES, show_default=True, help="Python package.")
def main(tag: str, packages: tuple[str, ...]) -> None:
    """Build the base image of sandboxes from this host."""
    try:
        click.echo(build_base_image(tag, packages, click.echo))
    except (ConfigurationError, SandboxError) as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
