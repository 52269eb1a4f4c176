"""The cache salt: who may share cached prefixes with whom.

Two decisions share cached prefixes only if their salts are equal. The salt is an HMAC, so neither
a tenant's name nor a caller's own salt reaches an engine, and nobody can compute another
tenant's. A service without keys is one tenant with an empty name.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Literal

#: Name under which the key is derived from the cluster secret (``ClusterSecret.derive``).
PURPOSE = "cache salt"

DOMAIN = b"jevserve cache salt v1"


def cache_salt(
    key: bytes,
    tenant: str,
    caller_salt: str | None,
    scope: Literal["tenant", "request"] = "tenant",
    random_bytes: Callable[[int], bytes] = secrets.token_bytes,
) -> str:
    """64 hexadecimal digits.

    Every field goes in with its length, and a missing caller's salt differs from an empty one, so
    no two different inputs give the same message.

    Args:
        key: the derived key; the same in every router, or replicas' caches are split.
        tenant: the caller's tenant.
        caller_salt: the caller's own partition of its tenant's cache, None for none.
        scope: ``tenant`` shares within tenant and caller's salt; ``request`` never shares.
        random_bytes: source of a request's own salt.
    """
    if scope == "request":
        return random_bytes(32).hex()
    # JSON can spell half a surrogate pair, which strict UTF-8 cannot.
    fields = [DOMAIN, tenant.encode(errors="surrogatepass")]
    if caller_salt is not None:
        fields.append(caller_salt.encode(errors="surrogatepass"))
    message = b"".join(len(f).to_bytes(8, "big") + f for f in fields)
    return hmac.digest(key, message, hashlib.sha256).hex()
