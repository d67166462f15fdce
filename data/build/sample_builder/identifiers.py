"""Check digits of the invented personal data: IBAN (ISO 13616), the Dutch 11-proof, Luhn.

What belongs here: telling whether a made-up number has the right form. What does not: the numbers.
"""

from __future__ import annotations


def iban_is_valid(iban: str) -> bool:
    """Whether an IBAN's check digits are right (ISO 7064 MOD 97-10)."""
    compact = iban.replace(" ", "").upper()
    if not compact.isalnum() or not 15 <= len(compact) <= 34:
        return False
    digits = "".join(str(int(c, 36)) for c in compact[4:] + compact[:4])
    return int(digits) % 97 == 1


def bsn_is_valid(number: str) -> bool:
    """Whether a citizen service number passes the 11-proof: weights 9..2 and -1."""
    digits = [int(c) for c in number if c.isdigit()]
    return len(digits) == 9 and sum(w * d for w, d in zip((9, 8, 7, 6, 5, 4, 3, 2, -1), digits, strict=True)) % 11 == 0


def luhn_is_valid(number: str) -> bool:
    """Whether a card number passes Luhn's check."""
    digits = [int(c) for c in number if c.isdigit()][::-1]
    total = sum(d if i % 2 == 0 else (2 * d - 9 if d > 4 else 2 * d) for i, d in enumerate(digits))
    return len(digits) >= 13 and total % 10 == 0
