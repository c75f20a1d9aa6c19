"""Whether a string of digits is what it looks like: checksums, number plans, address spaces."""

import datetime
import functools
import ipaddress
from typing import Any

from mindformers_megatron.corpus.optional import needed

_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_ID_CHECKS = "10X98765432"
# Provinces, municipalities, autonomous and special administrative regions, by the first two digits of GB/T 2260.
_REGIONS = frozenset(
    map(
        str,
        (
            *range(11, 16),
            *range(21, 24),
            *range(31, 38),
            *range(41, 47),
            *range(50, 55),
            *range(61, 66),
            71,
            81,
            82,
            83,
        ),
    )
)
# What ISO/IEC 7812 gives to payment cards, with the lengths that are issued.
_ISSUERS = (
    ("4", (13, 16, 19)),
    *((str(prefix), (16,)) for prefix in range(51, 56)),
    *((str(prefix), (16,)) for prefix in range(2221, 2721)),
    *((prefix, (15,)) for prefix in ("34", "37")),
    *((str(prefix), (16, 17, 18, 19)) for prefix in range(3528, 3590)),
    *((prefix, (16, 17, 18, 19)) for prefix in ("62", "60", "64", "65", "81")),
    *((prefix, (14, 15, 16)) for prefix in ("300", "301", "302", "303", "304", "305", "36", "38", "39")),
    *(
        (prefix, (16, 17, 18, 19)) for prefix in ("95", "94", "99", "90", "98")
    ),  # of Chinese banks, from before UnionPay
)
_LENGTHS = {prefix: frozenset(lengths) for prefix, lengths in _ISSUERS}
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def is_id_card(number: str) -> bool:
    """Whether 18 characters are a resident identity number of China (GB 11643): region, date of birth, checksum."""
    if number[:2] not in _REGIONS:
        return False
    try:
        born = datetime.date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    total = sum(weight * int(digit) for weight, digit in zip(_ID_WEIGHTS, number, strict=False))
    return 1850 <= born.year <= 2100 and _ID_CHECKS[total % 11] == number[17].upper()


def is_bank_card(number: str) -> bool:
    """Whether digits are the number of a payment card (ISO/IEC 7812): issuer, length, and the check digit of Luhn."""
    if not any(len(number) in _LENGTHS.get(number[:size], ()) for size in (1, 2, 3, 4)):
        return False
    digits = [ord(digit) - 48 for digit in reversed(number)]
    # A number of one digit over and over is a placeholder, and 0000… passes the check.
    return len(set(digits)) > 1 and (sum(digits[::2]) + sum(_DOUBLED[digit] for digit in digits[1::2])) % 10 == 0


def is_public_ip(address: str) -> bool:
    """Whether an address leads to one machine of the internet: not a private, local, multicast or documentation one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        # All that is given out so far. ``a::b`` is an address too, and more often it is C++.
        return address[0] in "23" and address[4:5] == ":" and parsed.is_global
    return parsed.is_global and not parsed.is_multicast


@functools.lru_cache(maxsize=1 << 14)
def is_phone(number: str, region: str | None) -> bool:
    """Whether a number can be dialled: it fits the number plan of its country.

    Args:
        number: as it is written.
        region: the country it is dialled in (``CN``); None for a number that begins with ``+``.
    """
    library = _phonenumbers()
    try:
        return bool(library.is_valid_number(library.parse(number, region)))
    except library.NumberParseException:
        return False


def known_regions() -> frozenset[str]:
    """The countries whose number plans are known, by ISO 3166."""
    return frozenset(_phonenumbers().SUPPORTED_REGIONS)


@functools.cache
def _phonenumbers() -> Any:
    return needed("phonenumbers", "finding telephone numbers")
