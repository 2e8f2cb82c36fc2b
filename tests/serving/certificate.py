"""Certificates for tests of TLS."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from toolcrib.serving.listener import TlsFiles


@dataclass(frozen=True)
class Certificate:
    """A certificate for localhost that signs itself."""

    files: TlsFiles

    @classmethod
    def make(cls, folder: Path, name: str, password: bytes | None = None) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
            .sign(key, hashes.SHA256())
        )
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password)
        )
        cert_file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
        cert_file.write_bytes(built.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
            )
        )
        return cls(TlsFiles(cert_file, key_file))

    def replace(self, other: Certificate) -> None:
        for mine, theirs in (
            (self.files.certificate, other.files.certificate),
            (self.files.key, other.files.key),
        ):
            os.replace(theirs, mine)
