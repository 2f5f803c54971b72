"""Fixtures of signing and verifying: keys that publishers in this process use."""

from pathlib import Path

import pytest

from ackbus.bus.signing import Keyring, SigningKey


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    """An empty keyring, which publishers in this process use."""
    monkeypatch.setenv("BUS_KEYS_DIR", str(tmp_path / "config" / "keys"))
    return Keyring()


@pytest.fixture
def alice(keyring: Keyring) -> SigningKey:
    """The key of the agent alice."""
    return keyring.create("alice")
