"""Perturbed texts from a real server, asked for by both clients."""

import asyncio

import pytest

from seatrial.client import AsyncClient, Client, ProblemResponseError
from tests.client.conftest import Server

TEXT = "The vandalism of a gripping film."


def test_texts_pairs_and_sentences_are_perturbed(client: Client) -> None:
    (text,) = client.perturb([TEXT], attackers=["disemvowel"], levels=[1]).items
    assert (text.perturbed, text.changed, text.edits) == ("Th vndlsm of a grppng flm.", 4, 7)
    (pair,) = client.perturb([(TEXT, "No.")], attackers=("truncate",), levels=[1]).items
    assert pair.perturbed == ["The vandalis of a grippin fil.", "No."]
    (sentence,) = client.perturb(sentences=[["A", "film"]], attackers=["truncate"], levels=[1], draws=1).items
    assert sentence.perturbed == ["A", "fil"]


def test_a_refusal_has_its_reason(client: Client) -> None:
    with pytest.raises(ProblemResponseError, match="seatrial resources install confusables"):
        client.perturb([TEXT], attackers=["visual"], glyphs="confusables")
    with pytest.raises(ProblemResponseError, match="exactly one"):
        client.perturb()


def test_the_client_that_is_awaited_gets_the_same(server: Server, client: Client) -> None:
    async def asked() -> object:
        async with AsyncClient(server.url) as awaited:
            return await awaited.perturb([TEXT, TEXT], attackers=["visual"], seed=3)

    assert asyncio.run(asked()) == client.perturb([TEXT, TEXT], attackers=["visual"], seed=3)
