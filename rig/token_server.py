"""A small token server: signs Bearer tokens that the real docker-registry accepts."""

import base64
import binascii
import json
import secrets
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from rig.certificates import self_signed


class TokenServer:
    """Answers `GET /token?service=…&scope=…` with a JWT; entering starts it, leaving stops it.

    A user with the right password gets every action asked for, anybody else nothing (401).
    `lifetime` is in seconds. `asked` lists the scopes of every request, in order.
    """

    service = "wharf-registry"
    issuer = "wharf-tokens"

    def __init__(self, users: Mapping[str, str], *, lifetime: int = 300) -> None:
        self.users = dict(users)
        self.lifetime = lifetime
        self.asked: list[tuple[str, ...]] = []
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self_signed(
            self._key,
            "wharf-tokens",
            x509.BasicConstraints(ca=True, path_length=None),
            critical=True,
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.realm = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def certificate(self) -> bytes:
        """What the registry trusts, as PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def token(self, user: str, scopes: tuple[str, ...]) -> str:
        """A JWT that grants `scopes` (`repository:NAME:pull,push`) for `lifetime` seconds."""
        now = int(time.time())
        der = self._certificate.public_bytes(serialization.Encoding.DER)
        header = {"typ": "JWT", "alg": "ES256", "x5c": [base64.b64encode(der).decode()]}
        claims = {
            "iss": self.issuer,
            "sub": user,
            "aud": self.service,
            "exp": now + self.lifetime,
            "nbf": now - 10,
            "iat": now,
            "jti": secrets.token_hex(8),
            "access": [_access(scope) for scope in scopes],
        }
        signed = (
            f"{_base64url(json.dumps(header).encode())}.{_base64url(json.dumps(claims).encode())}"
        )
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _handler(owner: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            user = self._user()
            scopes = tuple(
                scope
                for value in parse_qs(urlsplit(self.path).query).get("scope", [])
                for scope in value.split(" ")
            )
            owner.asked.append(scopes)
            if user is None:
                self._answer(401, {"errors": [{"code": "UNAUTHORIZED"}]})
            else:
                self._answer(
                    200, {"token": owner.token(user, scopes), "expires_in": owner.lifetime}
                )

        def _user(self) -> str | None:
            kind, _, credentials = self.headers.get("Authorization", "").partition(" ")
            if kind != "Basic":
                return None
            try:
                user, _, password = base64.b64decode(credentials).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                return None
            return user if owner.users.get(user) == password else None

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            """Quiet: what was asked stands in `asked`."""

    return Handler


def _access(scope: str) -> dict[str, Any]:
    kind, _, rest = scope.partition(":")
    name, _, actions = rest.rpartition(":")
    return {"type": kind, "name": name, "actions": actions.split(",")}


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
