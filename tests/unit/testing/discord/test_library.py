"""The library discord-py itself against the double: what it sends is taken, what it is sent it understands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import discord
import pytest
from discord.gateway import DiscordWebSocket
from discord.http import Route

from agent_testing.discord import FakeDiscord, Fault, RandomFaults, RateLimits

TOKEN = "discord-token"


class Approval(discord.ui.View):
    def __init__(self) -> None:
        super().__init__(timeout=None)

    @discord.ui.button(label="Once", custom_id="a:1:once")
    async def once(self, interaction: discord.Interaction, _button: Any) -> None:
        await interaction.response.edit_message(content="Decided.", view=None)

    @discord.ui.button(label="Later", custom_id="a:1:later")
    async def later(self, interaction: discord.Interaction, _button: Any) -> None:
        await interaction.response.defer()
        await interaction.edit_original_response(content="Decided later.", view=None)

    @discord.ui.button(label="Why", custom_id="a:1:why")
    async def why(self, interaction: discord.Interaction, _button: Any) -> None:
        await interaction.response.send_message("Because.", ephemeral=True)
        await interaction.followup.send("More.", ephemeral=True)


class Echo(discord.Client):
    """Answers every message of a person with its text and the contents of its files."""

    def __init__(self) -> None:
        intents = discord.Intents.default()
        intents.message_content = intents.members = True
        super().__init__(intents=intents, guild_ready_timeout=0.1)
        self.tree = discord.app_commands.CommandTree(self)
        self.resumed = asyncio.Event()

        @self.tree.command(name="new", description="A new session")
        async def new(interaction: discord.Interaction, title: str) -> None:
            await interaction.response.defer(ephemeral=True, thinking=True)
            await interaction.edit_original_response(content=f"begun: {title}")

    async def setup_hook(self) -> None:
        await self.tree.sync()

    async def on_resumed(self) -> None:
        self.resumed.set()

    async def on_message(self, message: discord.Message) -> None:
        if message.author.bot:
            return
        async with message.channel.typing():
            files = [(await each.read()).decode() for each in message.attachments]
            reply = await message.channel.send(
                " ".join([message.content, *files]),
                reference=message,
                view=Approval(),
                nonce=message.id,
                allowed_mentions=discord.AllowedMentions.none(),
            )
            await reply.edit(content=reply.content + "!")


@pytest.fixture
def point() -> Iterator[Callable[[FakeDiscord], None]]:
    """Points the library at a double, and back."""
    base, gateway = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY

    def at(fake: FakeDiscord) -> None:
        Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = fake.url + "/api/v10", type(gateway)(fake.gateway_url)

    yield at
    Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = base, gateway


@asynccontextmanager
async def running(fake: FakeDiscord, point: Callable[[FakeDiscord], None]) -> AsyncGenerator[Echo]:
    point(fake)
    client = Echo()
    task = asyncio.create_task(client.start(TOKEN))
    try:
        async with asyncio.timeout(60):
            await until(fake, lambda: fake.connected)
            await client.wait_until_ready()
        yield client
    finally:
        await client.close()
        await asyncio.wait([task])
        task.exception()


async def until(fake: FakeDiscord, predicate: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(fake.wait_for, predicate, 20.0)


async def test_a_bot_chats_in_private_and_in_a_guild(fake: FakeDiscord, point: Callable[[FakeDiscord], None]) -> None:
    ada = fake.user("ada")
    general = fake.text_channel(fake.guild("team", [ada]), "general")
    async with running(fake, point) as client:
        guild = client.guilds[0]
        assert (guild.name, [each.name for each in guild.text_channels]) == ("team", ["general"])
        assert {each.name for each in guild.members} == {"ada", "agent"}
        asked = ada.write(ada.dm(), "read this", attachments=[("a.txt", b"abc")])
        reply = await until(fake, lambda: next((each for each in ada.dm().messages if each.edited), None))
        assert (reply.content, reply.reply_to, reply.notified) == ("read this abc!", asked, [])
        assert [each.content for each in reply.history] == ["read this abc"]
        assert ada.dm().typing == [fake.bot]
        thread = ada.start_thread(general, "topic")
        ada.write(thread, "in here", mentions=[fake.bot])
        reply = await until(fake, lambda: thread.messages[1:])
        assert reply[0].content.startswith(f"{fake.bot.mention} in here")
    assert fake.violations == []


async def test_buttons_and_commands_are_answered(fake: FakeDiscord, point: Callable[[FakeDiscord], None]) -> None:
    ada = fake.user("ada")
    async with running(fake, point):
        ada.write(ada.dm(), "one")
        ada.write(ada.dm(), "two")
        first, second = await until(
            fake, lambda: len(made := [each for each in ada.dm().messages if each.edited]) > 1 and made
        )
        why = ada.press(first, "Why")
        assert await asyncio.to_thread(why.wait) == "message"
        await until(fake, lambda: len(ada.ephemeral) == 2)
        assert [each.content for each in ada.ephemeral] == ["Because.", "More."]
        assert await asyncio.to_thread(ada.press(first, "Once").wait) == "update"
        assert (first.content, first.buttons) == ("Decided.", [])
        assert await asyncio.to_thread(ada.press(second, "Later").wait) == "deferred-update"
        await until(fake, lambda: second.content == "Decided later.")
        answer = await asyncio.to_thread(ada.command("new", title="work").wait_for_message)
        assert (answer.content, answer.ephemeral) == ("begun: work", True)


async def test_a_lost_gateway_is_resumed_and_nothing_is_missed(
    fake: FakeDiscord, point: Callable[[FakeDiscord], None]
) -> None:
    ada = fake.user("ada")
    async with running(fake, point) as client:
        await asyncio.to_thread(fake.ask_to_reconnect)
        ada.write(ada.dm(), "while away")
        await until(fake, lambda: ada.dm().messages[1:])
        async with asyncio.timeout(60):
            await client.resumed.wait()


async def test_a_revoked_token_ends_the_bot(fake: FakeDiscord, point: Callable[[FakeDiscord], None]) -> None:
    point(fake)
    client = Echo()
    task = asyncio.create_task(client.start(TOKEN))
    await until(fake, lambda: fake.connected)
    await asyncio.to_thread(fake.revoke)
    with pytest.raises(discord.ConnectionClosed) as closed:
        await asyncio.wait_for(task, 20)
    assert closed.value.code == 4004
    await client.close()
    again = Echo()
    with pytest.raises(discord.LoginFailure):
        await asyncio.wait_for(again.start(TOKEN), 20)
    await again.close()


@pytest.mark.slow
async def test_the_library_keeps_to_the_limits_and_tries_again(point: Callable[[FakeDiscord], None]) -> None:
    with FakeDiscord(limits=RateLimits(messages=2, edits=2, seconds=0.5)) as fake:
        ada = fake.user("ada")
        fake.faults.next(Fault("429", seconds=0.1), at="^POST .*/messages$")
        fake.faults.next(Fault("5xx-after"), at="^POST .*/messages$")
        async with running(fake, point):
            for number in range(5):
                ada.write(ada.dm(), str(number))
            await until(fake, lambda: sum(bool(each.edited) for each in ada.dm().messages) == 5)
        mine = [each.content for each in ada.dm().messages if each.author is fake.bot]
        assert sorted(mine) == [f"{number}!" for number in range(5)]  # the nonce made what was sent twice one message
        assert fake.violations == []


async def test_random_faults_of_the_gateway_lose_nothing(point: Callable[[FakeDiscord], None]) -> None:
    with FakeDiscord(limits=RateLimits.loose()) as fake:
        ada = fake.user("ada")
        async with running(fake, point):
            fake.faults.random = RandomFaults(twice=0.3, late=0.3)
            for number in range(10):
                ada.write(ada.dm(), str(number))
            await until(fake, lambda: len({each.content for each in ada.dm().messages if each.edited}) == 10)
