"""Both ends prove the cluster secret before anything else is said.

    client -> server   Hello(version, client nonce)
    server -> client   Challenge(version, server nonce)
    client -> server   Proof(MAC of "client", version, both nonces)
    server -> client   Proof(MAC of "server", version, both nonces)

The client proves first: whoever only reaches the port learns nothing it could try secrets on.
Nonces are fresh, so a recorded handshake is worthless. The proof covers the start of a
connection; against somebody who can change packets on the way there is TLS.
"""

from __future__ import annotations

import secrets

from jevserve.errors import TransportError
from jevserve.transport.frames import FrameStream
from jevserve.transport.messages import (
    NONCE_BYTES,
    PROTOCOL_VERSION,
    Challenge,
    Failed,
    Handshake,
    Hello,
    Proof,
    decode_handshake,
    encode,
)
from jevserve.transport.secret import ClusterSecret, Role


async def as_client(stream: FrameStream, secret: ClusterSecret) -> None:
    """Raises TransportError for a peer that refuses, or that does not know the secret."""
    ours = secrets.token_bytes(NONCE_BYTES)
    stream.send(encode(Hello(PROTOCOL_VERSION, ours)))
    challenge = await expect(stream)
    if not isinstance(challenge, Challenge):
        raise TransportError("the peer answered with something else than a challenge")
    check_version(challenge.version)
    theirs = challenge.nonce
    stream.send(encode(Proof(secret.proof(Role.CLIENT, PROTOCOL_VERSION, ours, theirs))))
    proof = await expect(stream)
    if not isinstance(proof, Proof) or not secret.proves(
        proof.mac, Role.SERVER, PROTOCOL_VERSION, ours, theirs
    ):
        raise TransportError("the replica did not prove the cluster secret")
    stream.proven()


async def as_server(stream: FrameStream, secret: ClusterSecret) -> None:
    """Raises TransportError for a peer of another version or without the secret."""
    hello = await expect(stream)
    if not isinstance(hello, Hello):
        raise TransportError("the peer opened with something else than a hello")
    check_version(hello.version)
    ours = secrets.token_bytes(NONCE_BYTES)
    stream.send(encode(Challenge(PROTOCOL_VERSION, ours)))
    proof = await expect(stream)
    if not isinstance(proof, Proof) or not secret.proves(
        proof.mac, Role.CLIENT, PROTOCOL_VERSION, hello.nonce, ours
    ):
        raise TransportError("the router did not prove the cluster secret")
    stream.send(encode(Proof(secret.proof(Role.SERVER, PROTOCOL_VERSION, hello.nonce, ours))))
    stream.proven()


async def expect(stream: FrameStream) -> Handshake:
    """The peer's next handshake message; its refusal is raised."""
    message = decode_handshake(await stream.receive())
    if isinstance(message, Failed):
        # Not proven, so its words are shown quoted and short.
        raise TransportError(f"the peer refused the connection: {message.message[:200]!r}")
    return message


def check_version(version: int) -> None:
    if version != PROTOCOL_VERSION:
        raise TransportError(
            f"the peer speaks protocol version {version}, this process {PROTOCOL_VERSION}"
        )
