"""Certificates that nobody knows unless told to."""

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def loopback_tls(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(what a server on 127.0.0.1 shows, what a client that trusts it uses). Files in `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = self_signed(key, "loopback", x509.SubjectAlternativeName([address]))
    shown, secret = folder / "certificate.pem", folder / "key.pem"
    shown.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(shown, secret)
    return server, ssl.create_default_context(cafile=str(shown))


def self_signed(
    key: ec.EllipticCurvePrivateKey,
    name: str,
    extension: x509.ExtensionType,
    *,
    critical: bool = False,
) -> x509.Certificate:
    """A certificate of `name` by itself, good from yesterday for a month."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    today = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=30))
        .add_extension(extension, critical)
        .sign(key, hashes.SHA256())
    )
