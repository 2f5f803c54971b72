"""Folders of configuration, as operators write them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from ackbus.automation.config.load import load
from ackbus.automation.config.models import Config
from ackbus.automation.config.sources import gather, hashes_of, write_seal
from ackbus.automation.config.values import ConfigFaults, Fault


class Folder:
    """A folder of configuration."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)

    def write(self, **files: str) -> "Folder":
        """Write files, named without their `.yaml`, `__` for a slash."""
        for name, text in files.items():
            self.write_as(f"{name.replace('__', '/')}.yaml", text)
        return self

    def write_as(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"))
        return path

    def plugin(self, name: str, manifest: str | None = None, run: str = "#!/bin/sh\n") -> Path:
        """Write a plugin into the folder `plugins`."""
        usual = f"""
            manifest_spec: ductile.plugin
            manifest_version: 1
            name: {name}
            version: 1.0.0
            protocol: 2
            entrypoint: run.sh
            working_directory: plugin
            commands:
              poll: {{type: read}}
              handle: {{type: write}}
        """
        self.write_as(f"plugins/{name}/manifest.yaml", manifest or usual)
        os.chmod(self.write_as(f"plugins/{name}/run.sh", run), 0o755)
        return self.path / "plugins" / name

    def lock(self) -> None:
        sources = gather(self.path)
        write_seal(sources.directory, hashes_of(sources.files, sources.directory))

    def load(self, environ: Mapping[str, str] | None = None) -> Config:
        return load(self.path, environ=environ or {})

    def faults(self, **environ: str) -> list[Fault]:
        """Return the faults for which the configuration is refused."""
        with pytest.raises(ConfigFaults) as refused:
            self.load(environ)
        return list(refused.value.faults)

    def told(self, **environ: str) -> list[str]:
        """Return these faults as they are printed, with paths from the folder on."""
        return [str(fault).replace(f"{self.path}/", "") for fault in self.faults(**environ)]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "config")


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[[str], Folder]:
    return lambda name: Folder(tmp_path / name)
