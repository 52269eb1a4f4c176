"""multipart/form-data bodies: a JSON part named ``request``, then one part for each asset."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from jevserve.api.refusals import MalformedBody
from jevserve.errors import InvalidRequest

# A bad form is told to its client, not to the operator's log.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)

#: The request and its assets.
MAX_PARTS = 65

#: Bytes of one part's headers.
MAX_PART_HEADERS = 4096

#: Bytes of a part's name; clients of the field use ``asset-0``.
MAX_PART_NAME = 256

REQUEST_PART = "request"


@dataclass
class Part:
    headers: dict[bytes, bytes] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)


class PartReader:
    """Collects parts from the parser's callbacks, within bounds."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.ended = False
        self._field = bytearray()
        self._value = bytearray()
        self._header_bytes = 0

    def on_part_begin(self) -> None:
        if len(self.parts) == MAX_PARTS:
            raise MalformedBody(f"the form has more than {MAX_PARTS} parts")
        self.parts.append(Part())
        self._header_bytes = 0

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].chunks.append(data[start:end])

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._count(end - start)
        self._field += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._count(end - start)
        self._value += data[start:end]

    def on_header_end(self) -> None:
        self.parts[-1].headers[bytes(self._field).lower()] = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def on_end(self) -> None:
        self.ended = True

    def _count(self, n: int) -> None:
        self._header_bytes += n
        if self._header_bytes > MAX_PART_HEADERS:
            raise MalformedBody(f"a part of the form has over {MAX_PART_HEADERS} bytes of headers")


def parse_form(data: bytes, boundary: bytes) -> tuple[bytes, dict[str, bytes]]:
    """The JSON of the first part, and the bytes of every other part by name.

    Raises:
        MalformedBody: not a form, cut short, or over a bound.
        InvalidRequest: the first part is not ``request``, or a name is missing or repeated.
    """
    reader = PartReader()
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": reader.on_part_begin,
                "on_part_data": reader.on_part_data,
                "on_header_field": reader.on_header_field,
                "on_header_value": reader.on_header_value,
                "on_header_end": reader.on_header_end,
                "on_end": reader.on_end,
            },
        )
        parser.write(data)
    except FormParserError as error:
        raise MalformedBody(f"not a valid multipart form: {str(error)[:200]}") from None
    if not reader.ended:
        raise MalformedBody("the form ends before its closing boundary")
    named: dict[str, bytes] = {}
    for i, part in enumerate(reader.parts):
        name = _name(part, i)
        if i == 0 and name != REQUEST_PART:
            raise InvalidRequest.at(
                ("body", REQUEST_PART),
                f"the form's first part must be named '{REQUEST_PART}' and hold the JSON request, "
                f"not {name!r}",
                "missing",
            )
        if name in named:
            raise InvalidRequest.at(
                ("body", name), "two parts of the form have this name", "part_repeated"
            )
        named[name] = b"".join(part.chunks)
    if not named:
        raise InvalidRequest.at(
            ("body", REQUEST_PART), "the form has no parts; send the JSON request first", "missing"
        )
    return named.pop(REQUEST_PART), named


def _name(part: Part, index: int) -> str:
    if b"content-transfer-encoding" in part.headers:
        encoding = part.headers[b"content-transfer-encoding"].strip().lower()
        if encoding not in (b"binary", b"8bit", b"7bit"):
            raise MalformedBody(f"part {index} has a Content-Transfer-Encoding; send plain bytes")
    _, options = parse_options_header(part.headers.get(b"content-disposition"))
    raw = options.get(b"name", b"")
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        name = ""
    if not 1 <= len(raw) <= MAX_PART_NAME or not name:
        raise InvalidRequest.at(
            ("body", index),
            f"this part of the form needs a name of 1 to {MAX_PART_NAME} bytes of UTF-8",
            "part_name",
        )
    return name
