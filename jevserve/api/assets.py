"""Assets of a request: images by base64 or by the part of a form, keyed by placeholder."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from jevserve.api.images import MAX_IMAGE_BYTES, MAX_USED_BYTES, inspect
from jevserve.api.issues import Issues, json_name, shown
from jevserve.decisions.request import Media
from jevserve.errors import Location

#: Images of one request.
MAX_ASSETS = 64

#: Characters of a placeholder; clients of the field send ``<image:HEX32>``.
MAX_PLACEHOLDER = 256

FORMATS = ("png", "jpg", "jpeg")


def parse_assets(
    body: dict[str, Any], parts: Mapping[str, bytes] | None, issues: Issues
) -> tuple[Media, ...]:
    """The media of a request in the order of its ``assets``.

    Args:
        body: the request; ``assets`` absent or null means none.
        parts: parts of the form by name, None where the body was plain JSON.
        issues: gets everything that is wrong.
    """
    loc: Location = ("body", "assets")
    value = body.get("assets")
    unused = set(parts or ())
    media: list[Media] = []
    if value is not None and not isinstance(value, dict):
        issues.add(
            loc,
            f"Input should be an object from placeholder to asset, not {json_name(value)}",
            "dict_type",
        )
        return ()
    if value is not None and not 1 <= len(value) <= MAX_ASSETS:
        issues.add(
            loc,
            f"{len(value)} assets, allowed are 1 to {MAX_ASSETS}; leave the field out for none",
            "too_long" if value else "too_short",
        )
        return ()
    for placeholder, asset in (value or {}).items():
        at = (*loc, placeholder)
        if not 1 <= len(placeholder) <= MAX_PLACEHOLDER:
            issues.add(
                at,
                f"a placeholder has 1 to {MAX_PLACEHOLDER} characters",
                "string_too_long" if placeholder else "string_too_short",
            )
        elif not isinstance(asset, dict):
            issues.add(at, f"Input should be an asset object, not {json_name(asset)}", "dict_type")
        else:
            data = _data(at, asset, parts, unused, issues)
            if data is not None:
                _append(at, placeholder, data, media, issues)
    for name in sorted(unused):
        issues.add(
            ("body", name),
            "no asset refers to this part of the form; name it in an asset's 'part'",
            "part_unused",
        )
    if media:
        _check_uses(body, media, issues)
    return tuple(media)


def _check_uses(body: dict[str, Any], media: list[Media], issues: Issues) -> None:
    """Every image is referenced, and all of them together, counted at each use, fit.

    A text that names no asset is text: placeholders have no form by which to tell.
    """
    # Half of a surrogate pair is in no text and no placeholder, so none is found across a seam.
    text = "\ud800".join(_strings(body))
    used = 0
    for image in media:
        uses = text.count(image.placeholder)
        used += uses * len(image.data)
        if not uses:
            issues.add(
                ("body", "assets", image.placeholder),
                "no text holds this placeholder; write it where the image belongs, in the state, "
                "in instructions or in criteria, or remove the asset",
                "asset_unused",
            )
    if used > MAX_USED_BYTES:
        issues.add(
            ("body", "assets"),
            f"the images have {used} bytes, counted at every use, at most {MAX_USED_BYTES}; send "
            "fewer, smaller, or use them less often",
            "too_long",
        )


def _strings(body: dict[str, Any]) -> Iterator[str]:
    """Every string in which a placeholder counts."""
    questions = body.get("questions")
    asked = questions.values() if isinstance(questions, dict) else ()
    waiting = [body.get("state")]
    for question in asked:
        if isinstance(question, dict):
            waiting += [question.get("instructions"), question.get("criteria")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _append(
    loc: Location, placeholder: str, data: bytes, media: list[Media], issues: Issues
) -> None:
    try:
        image = inspect(data)
    except ValueError as error:
        issues.add(loc, str(error), "image")
        return
    media.append(Media(placeholder, image.mime, data))


def _data(
    loc: Location,
    asset: dict[str, Any],
    parts: Mapping[str, bytes] | None,
    unused: set[str],
    issues: Issues,
) -> bytes | None:
    kind = asset.get("type", "image")
    if kind not in ("image", None):
        issues.add((*loc, "type"), f"Input should be 'image', not {shown(kind)}", "literal_error")
        return None
    part = asset.get("part")
    if part is not None:
        return _part((*loc, "part"), part, parts, unused, issues)
    return _base64(loc, asset, issues)


def _part(
    loc: Location,
    part: object,
    parts: Mapping[str, bytes] | None,
    unused: set[str],
    issues: Issues,
) -> bytes | None:
    if not isinstance(part, str):
        issues.add(loc, f"Input should be a string, not {json_name(part)}", "string_type")
        return None
    if parts is None:
        issues.add(
            loc, "only multipart/form-data requests have parts; send 'data_base64' instead", "part"
        )
        return None
    if part not in parts:
        issues.add(loc, f"the form has no part named {shown(part)}", "part")
        return None
    unused.discard(part)
    return parts[part]


def _base64(loc: Location, asset: dict[str, Any], issues: Issues) -> bytes | None:
    text = asset.get("data_base64")
    if text is None:
        issues.add(loc, "an asset needs 'part' or 'data_base64'", "missing")
        return None
    declared = asset.get("format")
    if declared is not None and declared not in FORMATS:
        issues.add(
            (*loc, "format"),
            f"Input should be 'png', 'jpg' or 'jpeg', not {shown(declared)}",
            "literal_error",
        )
    at = (*loc, "data_base64")
    if not isinstance(text, str):
        issues.add(at, f"Input should be a string, not {json_name(text)}", "string_type")
        return None
    if len(text) > MAX_IMAGE_BYTES // 3 * 4 + 4:
        issues.add(at, f"over {MAX_IMAGE_BYTES} bytes of image", "string_too_long")
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        issues.add(at, "not valid base64", "base64")
        return None
