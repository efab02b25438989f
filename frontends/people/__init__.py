"""Who may use the bots: people, their identities, and how a stranger becomes one of them."""

from .listing import ListedPerson, people_in
from .pairing import (
    CODE_LIFETIME_MS,
    Paired,
    PairingError,
    WrongCode,
    allow_in,
    code_in,
    confirm,
    confirmed_in,
    end_pairing_in,
    unpair_in,
)
from .person import (
    Person,
    identities_in,
    identity_of,
    may_use_in,
    note_private_chat_in,
    person_in,
    principals_in,
    private_chats_in,
)

__all__ = [
    "CODE_LIFETIME_MS",
    "ListedPerson",
    "Paired",
    "PairingError",
    "Person",
    "WrongCode",
    "allow_in",
    "code_in",
    "confirm",
    "confirmed_in",
    "end_pairing_in",
    "identities_in",
    "identity_of",
    "may_use_in",
    "note_private_chat_in",
    "people_in",
    "person_in",
    "principals_in",
    "private_chats_in",
    "unpair_in",
]
