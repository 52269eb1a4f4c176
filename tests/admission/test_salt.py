"""The cache salt: same caller same salt, anything else another one, nothing readable in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jevserve.admission.salt import cache_salt

KEY = bytes(range(32))
callers = st.tuples(st.text(max_size=20), st.none() | st.text(max_size=20))


@given(callers, callers)
def test_salts_are_equal_exactly_for_the_same_tenant_and_callers_salt(
    one: tuple[str, str | None], two: tuple[str, str | None]
) -> None:
    assert (cache_salt(KEY, *one) == cache_salt(KEY, *two)) == (one == two)


def test_fields_cannot_be_moved_into_one_another() -> None:
    salts = [
        cache_salt(KEY, tenant, salt)
        for tenant, salt in [("ab", "c"), ("a", "bc"), ("abc", None), ("abc", ""), ("", "abc")]
    ]

    assert len(set(salts)) == len(salts)


def test_the_salt_is_that_of_every_router_and_release() -> None:
    """Golden: routers that disagreed would split the replicas' caches."""
    assert cache_salt(KEY, "acme", "session-1") == GOLDEN


GOLDEN = "3ea4243d95fb6526be3d2b57146770c5c9d0f0f68fc7945fc599803466fbec38"


def test_another_key_gives_another_salt() -> None:
    assert cache_salt(KEY, "acme", None) != cache_salt(KEY[::-1], "acme", None)


def test_a_salt_is_64_hexadecimal_digits_and_shows_no_input() -> None:
    salt = cache_salt(KEY, "acme", "session-1")

    assert len(salt) == 64 and int(salt, 16) >= 0
    assert "acme" not in salt and "session" not in salt


def test_scope_request_shares_with_nobody() -> None:
    salts = {cache_salt(KEY, "acme", "s", scope="request") for _ in range(100)}

    assert len(salts) == 100 and all(len(s) == 64 for s in salts)


def test_half_a_surrogate_pair_is_a_salt_like_any_other() -> None:
    assert cache_salt(KEY, "acme", "\ud800") != cache_salt(KEY, "acme", "\ud801")
